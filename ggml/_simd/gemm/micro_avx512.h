/* The register tile (gemm.h) with AVX-512: 28 accumulators, 2 vectors of a, 1 of b. */
enum { MV = 2, NR = 14, INT8_NR = 7, GEMV_MOST = 40, GEMV_TOGETHER = 6, PLACE_LEAST = 1, PLACE_MOST = 0 };
