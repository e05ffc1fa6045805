/* The register tile (gemm.h) with NEON: 24 accumulators, 2 vectors of a, the other registers for b. */
enum { MV = 2, NR = 12, INT8_NR = 4, GEMV_MOST = 16, GEMV_TOGETHER = 6, PLACE_LEAST = 1, PLACE_MOST = 0 };
