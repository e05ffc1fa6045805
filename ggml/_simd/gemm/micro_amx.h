/* The register tile (gemm.h) with AVX-512, and products of floats by the tiles of AMX (pieces.h). */
enum { MV = 2, NR = 14, FLOAT_DEPTH = 512, INT8_NR = 7, GEMV_MAX_N = 40, GEMV_NR = 6, FEW_MAX_N = 0, INT8_AHEAD = 0,
       B_AHEAD = 1 };
