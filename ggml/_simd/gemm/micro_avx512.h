/* The register tile (gemm.h) with AVX-512: 28 accumulators, 2 vectors of a, 1 of b. */
enum { MV = 2, NR = 14, FLOAT_DEPTH = 512, INT8_NR = 7, GEMV_MAX_N = 32, GEMV_NR = 6, FEW_MAX_N = 32, INT8_AHEAD = 0,
       B_AHEAD = 1 };
enum { IN_PLACE_MIN_N = 26, IN_PLACE_MAX_N = 128, IN_PLACE_K = 192, IN_PLACE_K_OF_N = 4, IN_PLACE_FIFTHS = 4,
       IN_PLACE_GROUP = 16, IN_PLACE_ROWS = 8 };
#define IN_PLACE_TILES(F) F(2, 1) F(2, 3) F(2, 8) F(3, 1) F(3, 3) F(3, 8)
