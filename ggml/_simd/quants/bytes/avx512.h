/* A chunk of 32 bytes fits into a register of AVX2; avx2.h contains what AVX-512 adds. */
#include "avx2.h"
