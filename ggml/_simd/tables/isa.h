/* One row an instruction set, from the most general to the most capable:
 * ISA(name, "what it needs", architecture, base, bytes). A build holds the rows of its architecture (GG_ARCH_*);
 * `scalar` is in every build. A row that only adds ways to multiply matrices takes the other kernels from its base, and
 * those of quantised rows from `bytes`, which is the row itself if it multiplies bytes in another way than the rows
 * before (families.h). setup.py reads the compiler flags of each row from the comment after it. -O2 makes the reference
 * kernels, which few CPUs need, a quarter smaller. */
ISA(scalar,     "the compiler's baseline",        ANY, scalar, scalar) /* flags: -O2 */
ISA(avx2,       "AVX2, FMA, F16C",                X86, avx2, avx2)   /* flags: -mavx2 -mfma -mf16c */
ISA(avx2vnni,   "AVX2, FMA, F16C, AVX-VNNI",      X86, avx2, avx2vnni)   /* flags: -mavx2 -mfma -mf16c -mavxvnni */
ISA(avx512,     "AVX-512 F, BW, DQ, VL",          X86, avx512, avx512)
    /* flags: -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl */
ISA(avx512vnni, "AVX-512 F, BW, DQ, VL, VNNI",    X86, avx512, avx512vnni)
    /* flags: -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni */
ISA(amx,        "AVX-512 VNNI, AMX",              X86, avx512, avx512vnni)
    /* flags: -mavx2 -mfma -mf16c -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mamx-tile -mamx-bf16 -mamx-int8 */
ISA(neon,       "NEON",                           ARM, neon, neon)   /* flags: */
ISA(dotprod,    "NEON, dot product",              ARM, neon, dotprod)   /* flags: -march=armv8.2-a+dotprod */
ISA(i8mm,       "NEON, dot product, int8 matmul", ARM, neon, i8mm)   /* flags: -march=armv8.2-a+dotprod+i8mm */
