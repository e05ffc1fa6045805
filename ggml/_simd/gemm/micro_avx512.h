/* The register tile (gemm.h) with AVX-512: 28 accumulators, 2 vectors of a, 1 of b. */
enum { MV = 2, NR = 14, FLOAT_DEPTH = 512, INT8_NR = 7, GEMV_MAX_N = 40, GEMV_NR = 6, IN_PLACE_MIN_N = 1,
       IN_PLACE_MAX_N = 0, FEW_MAX_N = 32, INT8_AHEAD = 0 };
