/* One row a tensor type: TYPE(id, NAME, name, block elements, block bytes, kind, activation, encoder, grid).
 * Ids, names and sizes are those of the GGUF file format. blocks.h describes the block of each type. Nothing else lists
 * types: enums, structs, conversions, dot products, validation and byte order are derived from these two tables.
 *
 * kind        what the type serves for, and with it the kernels that every instruction set has for it:
 *               FLOAT       arithmetic:                        <name>_to_f32, <name>_dot
 *               INT         integers, such as indices; no kernels
 *               STORED      stored and copied; no kernels
 *               WEIGHT      quantised first operand:           <name>_to_f32, <name>_dot, <name>_ints
 *               ACTIVATION  quantised second operand:          <name>_to_f32, <name>_lay_out
 *               BOTH        first and second operand:          the kernels of WEIGHT and of ACTIVATION
 * activation  type to which a product converts its second operand before it calls <name>_dot; NONE: there is no product
 * encoder     how a row is made from f32:
 *               DIRECT      <name>_from_f32 rounds; importance weights make no difference
 *               SEARCH      <name>_quantize searches for scales, with or without importance weights
 *               EITHER      <name>_from_f32 rounds, <name>_quantize searches
 *               WEIGHTED    <name>_quantize searches and requires importance weights
 *               NONE        there is no conversion from f32
 * grid        the grid (quants/quantize.h) to whose points the encoder rounds groups of elements, or NONE
 *
 *    id  NAME     name     elements bytes kind  activation encoder grid */
TYPE(0,  F32,     f32,     1,   4,   FLOAT,      F32,  DIRECT,   NONE)
TYPE(1,  F16,     f16,     1,   2,   FLOAT,      F16,  DIRECT,   NONE)
TYPE(2,  Q4_0,    q4_0,    32,  18,  WEIGHT,     Q8_0, EITHER,   NONE)
TYPE(3,  Q4_1,    q4_1,    32,  20,  WEIGHT,     Q8_1, EITHER,   NONE)
TYPE(6,  Q5_0,    q5_0,    32,  22,  WEIGHT,     Q8_0, EITHER,   NONE)
TYPE(7,  Q5_1,    q5_1,    32,  24,  WEIGHT,     Q8_1, EITHER,   NONE)
TYPE(8,  Q8_0,    q8_0,    32,  34,  BOTH,       Q8_0, DIRECT,   NONE)
TYPE(9,  Q8_1,    q8_1,    32,  36,  ACTIVATION, NONE, DIRECT,   NONE)
TYPE(10, Q2_K,    q2_K,    256, 84,  WEIGHT,     Q8_K, SEARCH,   NONE)
TYPE(11, Q3_K,    q3_K,    256, 110, WEIGHT,     Q8_K, SEARCH,   NONE)
TYPE(12, Q4_K,    q4_K,    256, 144, WEIGHT,     Q8_K, SEARCH,   NONE)
TYPE(13, Q5_K,    q5_K,    256, 176, WEIGHT,     Q8_K, SEARCH,   NONE)
TYPE(14, Q6_K,    q6_K,    256, 210, WEIGHT,     Q8_K, SEARCH,   NONE)
TYPE(15, Q8_K,    q8_K,    256, 292, ACTIVATION, NONE, DIRECT,   NONE)
TYPE(16, IQ2_XXS, iq2_xxs, 256, 66,  WEIGHT,     Q8_K, WEIGHTED, IQ2XXS)
TYPE(17, IQ2_XS,  iq2_xs,  256, 74,  WEIGHT,     Q8_K, WEIGHTED, IQ2XS)
TYPE(18, IQ3_XXS, iq3_xxs, 256, 98,  WEIGHT,     Q8_K, SEARCH,   IQ3XXS)
TYPE(19, IQ1_S,   iq1_s,   256, 50,  WEIGHT,     Q8_K, WEIGHTED, IQ1S)
TYPE(20, IQ4_NL,  iq4_nl,  32,  18,  WEIGHT,     Q8_0, EITHER,   NONE)
TYPE(21, IQ3_S,   iq3_s,   256, 110, WEIGHT,     Q8_K, SEARCH,   IQ3S)
TYPE(22, IQ2_S,   iq2_s,   256, 82,  WEIGHT,     Q8_K, SEARCH,   IQ2S)
TYPE(23, IQ4_XS,  iq4_xs,  256, 136, WEIGHT,     Q8_K, SEARCH,   NONE)
TYPE(24, I8,      i8,      1,   1,   INT,        NONE, NONE,     NONE)
TYPE(25, I16,     i16,     1,   2,   INT,        NONE, NONE,     NONE)
TYPE(26, I32,     i32,     1,   4,   INT,        NONE, NONE,     NONE)
TYPE(27, I64,     i64,     1,   8,   INT,        NONE, NONE,     NONE)
TYPE(28, F64,     f64,     1,   8,   STORED,     NONE, NONE,     NONE)
TYPE(29, IQ1_M,   iq1_m,   256, 56,  WEIGHT,     Q8_K, SEARCH,   IQ1S)
TYPE(30, BF16,    bf16,    1,   2,   FLOAT,      BF16, DIRECT,   NONE)
TYPE(34, TQ1_0,   tq1_0,   256, 54,  WEIGHT,     Q8_K, DIRECT,   NONE)
TYPE(35, TQ2_0,   tq2_0,   256, 66,  WEIGHT,     Q8_K, DIRECT,   NONE)
TYPE(39, MXFP4,   mxfp4,   32,  17,  WEIGHT,     Q8_0, DIRECT,   NONE)
TYPE(40, NVFP4,   nvfp4,   64,  36,  WEIGHT,     Q8_0, DIRECT,   NONE)
TYPE(41, Q1_0,    q1_0,    128, 18,  WEIGHT,     Q8_0, DIRECT,   NONE)
TYPE(42, Q2_0,    q2_0,    64,  18,  WEIGHT,     Q8_0, DIRECT,   NONE)
