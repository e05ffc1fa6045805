/* The register tile (gemm.h) with AVX2: 12 accumulators, 2 vectors of a, 1 of b. */
enum { MV = 2, NR = 6, FLOAT_DEPTH = 256, INT8_NR = 6, GEMV_MAX_N = 40, GEMV_NR = 3, FEW_MAX_N = 32, INT8_AHEAD = 512,
       B_AHEAD = 0 };
enum { IN_PLACE_MIN_N = 10, IN_PLACE_MAX_N = 192, IN_PLACE_K = 0, IN_PLACE_K_OF_N = 2, IN_PLACE_FIFTHS = 0,
       IN_PLACE_GROUP = 12, IN_PLACE_ROWS = 6 };
#define IN_PLACE_TILES(F) F(2, 1) F(2, 2) F(2, 3) F(2, 4) F(2, 5) F(2, 6) F(3, 1) F(3, 2) F(3, 3) F(3, 4)
