/* What this machine can do at most: multiply-adds of floats and products of bytes for each instruction set, reading
 * memory, and starting a team of threads. `peaks THREADS MEGABYTES ROUNDS` prints a line of JSON for each limit.
 * See peaks.py. */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SUMS = 12, STEPS = 1000000 };    /* so many sums hide the latency of an instruction, and fit into 16 registers */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static volatile int32_t sink;           /* a result goes here, so that the compiler keeps its loop */

/* Defines a function that executes STEP for each of SUMS variables s0, s1 ..., STEPS times. The first empty assembler
 * statement makes the compiler assume that x changes, so that it does not move a product of x and y out of the loop;
 * the second one that the sum is used, so that it stays in a register. */
#define SUMS_OF(DO, ...) DO(s0, __VA_ARGS__) DO(s1, __VA_ARGS__) DO(s2, __VA_ARGS__) DO(s3, __VA_ARGS__)               \
    DO(s4, __VA_ARGS__) DO(s5, __VA_ARGS__) DO(s6, __VA_ARGS__) DO(s7, __VA_ARGS__)                                    \
    DO(s8, __VA_ARGS__) DO(s9, __VA_ARGS__) DO(s10, __VA_ARGS__) DO(s11, __VA_ARGS__)
#define BEGIN(sum, type, zero) type sum = zero;
#define TURN(sum, name, constraint)                                                                                    \
    __asm__ volatile("" : "+" constraint(x));                                                                          \
    sum = name##_step(sum, x, y);                                                                                      \
    __asm__ volatile("" : "+" constraint(sum));
#define LOOP(name, isa, type, constraint, zero, STEP)                                                                  \
    isa static inline type name##_step(type sum, type x, type y) { return STEP; }                                      \
    isa static void name(void) {                                                                                       \
        type x = zero, y = zero;                                                                                       \
        __asm__ volatile("" : "+" constraint(x), "+" constraint(y));                                                   \
        SUMS_OF(BEGIN, type, zero)                                                                                     \
        for (int i = 0; i < STEPS; i++) { SUMS_OF(TURN, name, constraint) }                                            \
    }

typedef struct limit { const char *name, *what; void (*run)(void); int supported, operations; } limit;

#if defined __x86_64__
#include <immintrin.h>
#define ISA(features) __attribute__((target(features)))
LOOP(sse2_fma, ISA("sse2"), __m128, "x", _mm_setzero_ps(), _mm_add_ps(sum, _mm_mul_ps(x, y)))
LOOP(avx2_fma, ISA("avx2,fma"), __m256, "x", _mm256_setzero_ps(), _mm256_fmadd_ps(x, y, sum))
LOOP(avx512_fma, ISA("avx512f"), __m512, "v", _mm512_setzero_ps(), _mm512_fmadd_ps(x, y, sum))
LOOP(avx2_bytes, ISA("avx2"), __m256i, "x", _mm256_setzero_si256(), _mm256_add_epi16(sum, _mm256_maddubs_epi16(x, y)))
LOOP(avx512_bytes, ISA("avx512bw"), __m512i, "v", _mm512_setzero_si512(),
     _mm512_add_epi16(sum, _mm512_maddubs_epi16(x, y)))
LOOP(avx2vnni_bytes, ISA("avxvnni"), __m256i, "x", _mm256_setzero_si256(), _mm256_dpbusd_avx_epi32(sum, x, y))
LOOP(avx512vnni_bytes, ISA("avx512f,avx512vnni"), __m512i, "v", _mm512_setzero_si512(),
     _mm512_dpbusd_epi32(sum, x, y))
static int limits(limit *l) {
    const int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const limit all[] = {
        {"sse2", "fma", sse2_fma, 1, 8},
        {"avx2", "fma", avx2_fma, avx2, 16},
        {"avx512", "fma", avx512_fma, __builtin_cpu_supports("avx512f"), 32},
        {"avx2", "bytes", avx2_bytes, avx2, 64},
        {"avx512", "bytes", avx512_bytes, __builtin_cpu_supports("avx512bw"), 128},
        {"avx2vnni", "bytes", avx2vnni_bytes, __builtin_cpu_supports("avxvnni"), 64},
        {"avx512vnni", "bytes", avx512vnni_bytes, __builtin_cpu_supports("avx512vnni"), 128},
    };
    memcpy(l, all, sizeof all);
    return sizeof all / sizeof *all;
}
#elif defined __aarch64__
#include <arm_neon.h>
LOOP(neon_fma, , float32x4_t, "w", vdupq_n_f32(0), vfmaq_f32(sum, x, y))
static int limits(limit *l) {
    *l = (limit){"neon", "fma", neon_fma, 1, 8};
    return 1;
}
#else
static int limits(limit *l) { (void)l; return 0; }
#endif

typedef uint64_t words __attribute__((vector_size(32)));

static void read_all(const words *p, size_t n) {
    words s[8] = {{0}};
    for (size_t i = 0; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++) s[j] ^= p[i + j];
    for (int j = 1; j < 8; j++) s[0] ^= s[j];
    sink = (int32_t)s[0][0];
}
static void print(const char *name, const char *what, int threads, double rate, const char *unit) {
    printf("{\"name\": \"%s\", \"what\": \"%s\", \"threads\": %d, \"rate\": %.2f, \"unit\": \"%s\"}\n", name, what,
           threads, rate, unit);
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
/* The median time of an empty parallel region in microseconds. */
static double region_time(int threads) {
    enum { REGIONS = 101 };
    double times[REGIONS];
    for (int i = 0; i < REGIONS; i++) {
        const double start = now();
#pragma omp parallel num_threads(threads)
        __asm__ volatile("");
        times[i] = 1e6 * (now() - start);
    }
    qsort(times, REGIONS, sizeof *times, ascending);
    return times[REGIONS / 2];
}

int main(int argc, char **argv) {
    if (argc != 4) return fprintf(stderr, "usage: peaks THREADS MEGABYTES ROUNDS\n"), 2;
    const int threads = atoi(argv[1]), rounds = atoi(argv[3]);
    const size_t part = ((size_t)atoi(argv[2]) << 20) / threads / sizeof(words), size = part * threads * sizeof(words);
    limit all[16];
    const int n = limits(all);
    for (int i = 0; i < n; i++) {
        double best = 0;
        for (int round = 0; round < rounds && all[i].supported; round++) {
            const double start = now();
#pragma omp parallel num_threads(threads)
            all[i].run();
            const double rate = 1e-9 * all[i].operations * SUMS * STEPS * threads / (now() - start);
            if (rate > best) best = rate;
        }
        if (best > 0) print(all[i].name, all[i].what, threads, best, all[i].what[0] == 'b' ? "GOP/s" : "GFLOP/s");
    }
    words *const p = aligned_alloc(64, (size + 63) / 64 * 64);
    if (!p) return fprintf(stderr, "peaks: no memory for %zu bytes\n", size), 1;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int t = 0; t < threads; t++) memset(p + t * part, 1, part * sizeof(words));
    double best = 0;
    for (int round = 0; round < rounds; round++) {
        const double start = now();
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int t = 0; t < threads; t++) read_all(p + t * part, part);
        const double rate = 1e-9 * size / (now() - start);
        if (rate > best) best = rate;
    }
    print("memory", "read", threads, best, "GB/s");
    print("OpenMP", "region", threads, region_time(threads), "us");
    free(p);
    return 0;
}
