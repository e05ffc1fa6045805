/* 32 bytes: AVX-512 uses the registers of AVX2, which hold one block; avx2.h takes what AVX-512 adds. */
#include "avx2.h"
