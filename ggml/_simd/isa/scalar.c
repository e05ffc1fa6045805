#define GG_ISA scalar
#define GG_VEC "scalar.h"
#define GG_MICRO "micro_scalar.h"
#include "target.h"
