/* The register tile (gemm.h) with AVX2: 12 accumulators, 2 vectors of a, 1 of b. */
enum { MV = 2, NR = 6, FLOAT_DEPTH = 256, INT8_NR = 6, GEMV_MAX_N = 40, GEMV_NR = 3, IN_PLACE_MIN_N = 10,
       IN_PLACE_MAX_N = 192, FEW_MAX_N = 32, INT8_AHEAD = 512 };
