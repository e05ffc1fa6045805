#define GG_ISA i8mm
#define GG_VEC "neon.h"
#define GG_MICRO "micro_neon.h"
#include "target.h"
