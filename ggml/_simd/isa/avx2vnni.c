#define GG_ISA avx2vnni
#define GG_VEC "avx2.h"
#define GG_MICRO "micro_avx2.h"
#include "target.h"
