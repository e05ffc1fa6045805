/* The register tile (gemm.h) with the baseline: vectors of four floats and 16 registers. */
enum { MV = 2, NR = 5, INT8_NR = 5, GEMV_MOST = 8, GEMV_TOGETHER = 3, PLACE_LEAST = 1, PLACE_MOST = 0 };
