#define GG_ISA dotprod
#define GG_VEC "neon.h"
#define GG_MICRO "micro_neon.h"
#include "target.h"
