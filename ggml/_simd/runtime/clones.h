/* GG_VECTORS: a function outside of the kernels, where code is compiled for the baseline, whose loops become vectors.
 * Where the compiler can, it is compiled for several instruction sets, of which the loader chooses. */
#ifndef GG_RUNTIME_CLONES_H
#define GG_RUNTIME_CLONES_H

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define GG_VECTORS __attribute__((optimize("O3"), target_clones("avx512f", "avx2", "default")))
#define GG_PART static inline __attribute__((always_inline))    /* of such a function */
#elif defined(__GNUC__) && !defined(__clang__)
#define GG_VECTORS __attribute__((optimize("O3")))
#define GG_PART static inline __attribute__((always_inline))
#else
#define GG_VECTORS
#define GG_PART static inline
#endif

#endif
