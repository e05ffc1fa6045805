/* The register tile (gemm.h) with NEON: 24 accumulators, 2 vectors of a, the other registers for b. */
enum { MV = 2, NR = 12, FLOAT_DEPTH = 512, INT8_NR = 4, GEMV_MAX_N = 16, GEMV_NR = 6, FEW_MAX_N = 0, INT8_AHEAD = 0,
       B_AHEAD = 1 };
