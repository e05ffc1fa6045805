/* The register tile (gemm.h) with AVX2: 12 accumulators, 2 vectors of a, 1 of b. */
enum { MV = 2, NR = 6, INT8_NR = 6, GEMV_MOST = 40, GEMV_TOGETHER = 3, PLACE_LEAST = 10, PLACE_MOST = 192 };
