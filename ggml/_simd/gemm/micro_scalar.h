/* The register tile (gemm.h) with the baseline: vectors of four floats and 16 registers. */
enum { MV = 2, NR = 5, FLOAT_DEPTH = 512, INT8_NR = 5, GEMV_MAX_N = 8, GEMV_NR = 3, FEW_MAX_N = 0, INT8_AHEAD = 0,
       B_AHEAD = 1 };
