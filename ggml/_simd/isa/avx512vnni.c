#define GG_ISA avx512vnni
#define GG_VEC "avx512.h"
#define GG_MICRO "micro_avx512.h"
#include "target.h"
