#define GG_ISA amx
#define GG_VEC "avx512.h"
#define GG_MICRO "micro_amx.h"
#include "target.h"
