/* CPU detection and the choice of a kernel table. */
#define _GNU_SOURCE
#include "dispatch.h"
#include "../tables/families.h"

#if defined GG_ARCH_X86
#include <cpuid.h>

static unsigned leaf(unsigned n, unsigned sub, int reg) {
    unsigned r[4] = {0};
    if (n > (unsigned)__get_cpuid_max(0, NULL)) return 0;
    __cpuid_count(n, sub, r[0], r[1], r[2], r[3]);
    return r[reg];
}
static uint64_t os_saves(void) {   /* XCR0: the register files that the operating system saves */
    if (!(leaf(1, 0, 2) >> 27 & 1)) return 0;
    unsigned lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}
enum { EAX, EBX, ECX, EDX };
static const struct { const char *name; unsigned leaf, sub; int reg, bit; uint64_t saves; } features[] = {
    {"sse3", 1, 0, ECX, 0, 0},          {"ssse3", 1, 0, ECX, 9, 0},          {"avx", 1, 0, ECX, 28, 6},
    {"fma", 1, 0, ECX, 12, 6},          {"f16c", 1, 0, ECX, 29, 6},          {"avx2", 7, 0, EBX, 5, 6},
    {"bmi2", 7, 0, EBX, 8, 0},          {"avx512f", 7, 0, EBX, 16, 0xe6},    {"avx512dq", 7, 0, EBX, 17, 0xe6},
    {"avx512bw", 7, 0, EBX, 30, 0xe6},  {"avx512vl", 7, 0, EBX, 31, 0xe6},   {"avx512_vbmi", 7, 0, ECX, 1, 0xe6},
    {"avx512_vnni", 7, 0, ECX, 11, 0xe6}, {"avx512_bf16", 7, 1, EAX, 5, 0xe6}, {"avx_vnni", 7, 1, EAX, 4, 6},
    {"amx_bf16", 7, 0, EDX, 22, 0x600e6}, {"amx_tile", 7, 0, EDX, 24, 0x600e6}, {"amx_int8", 7, 0, EDX, 25, 0x600e6},
};
bool gg_cpu_has(const char *name) {
    for (size_t i = 0; i < sizeof features / sizeof *features; i++)
        if (!strcmp(name, features[i].name))
            return (leaf(features[i].leaf, features[i].sub, features[i].reg) >> features[i].bit & 1)
                && (os_saves() & features[i].saves) == features[i].saves;
    return false;
}
#define HAS_scalar true
#define HAS_avx2 (gg_cpu_has("avx2") && gg_cpu_has("fma") && gg_cpu_has("f16c"))
#define HAS_avx2vnni (HAS_avx2 && gg_cpu_has("avx_vnni"))
#define HAS_avx512 \
    (HAS_avx2 && gg_cpu_has("avx512f") && gg_cpu_has("avx512bw") && gg_cpu_has("avx512dq") && gg_cpu_has("avx512vl"))
#define HAS_avx512vnni (HAS_avx512 && gg_cpu_has("avx512_vnni"))
#define HAS_amx (HAS_avx512vnni && gg_cpu_has("amx_tile") && gg_cpu_has("amx_bf16") && gg_cpu_has("amx_int8") \
    && tiles_allowed())

/* Linux saves the tiles' registers of a process that has asked for that. It refuses where a thread has a signal stack
 * that is too small for them. */
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
static bool tiles_allowed(void) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA);
}
#else
static bool tiles_allowed(void) { return false; }
#endif

#elif defined GG_ARCH_ARM
#if defined __linux__
#include <sys/auxv.h>
#elif defined __APPLE__
#include <sys/sysctl.h>
static bool sysctl_flag(const char *name) {
    int v = 0;
    size_t n = sizeof v;
    return !sysctlbyname(name, &v, &n, NULL, 0) && v;
}
#elif defined _WIN32
#include <windows.h>
#endif
bool gg_cpu_has(const char *name) {
    const bool dotprod = !strcmp(name, "dotprod"), i8mm = !strcmp(name, "matmul_int8"), fp16 = !strcmp(name, "fp16_va");
    if (!strcmp(name, "neon") || !strcmp(name, "arm_fma")) return true;
#if defined __linux__
    if (dotprod) return getauxval(AT_HWCAP) >> 20 & 1;     /* HWCAP_ASIMDDP */
    if (fp16) return getauxval(AT_HWCAP) >> 10 & 1;        /* HWCAP_ASIMDHP */
    if (i8mm) return getauxval(AT_HWCAP2) >> 13 & 1;       /* HWCAP2_I8MM */
    if (!strcmp(name, "sve")) return getauxval(AT_HWCAP) >> 22 & 1;
#elif defined __APPLE__
    if (dotprod) return sysctl_flag("hw.optional.arm.FEAT_DotProd");
    if (fp16) return sysctl_flag("hw.optional.arm.FEAT_FP16");
    if (i8mm) return sysctl_flag("hw.optional.arm.FEAT_I8MM");
#elif defined _WIN32
    if (dotprod) return IsProcessorFeaturePresent(43);     /* PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE */
#endif
    (void)dotprod, (void)i8mm, (void)fp16;
    return false;
}
#define HAS_scalar true
#define HAS_neon true
#define HAS_dotprod gg_cpu_has("dotprod")
#define HAS_i8mm (gg_cpu_has("dotprod") && gg_cpu_has("matmul_int8"))

#else
bool gg_cpu_has(const char *name) { (void)name; return false; }
#define HAS_scalar true
#endif

/* The rows of tables/isa.h that this build holds. */
#define IF_ANY(x) x
#ifdef GG_ARCH_X86
#define IF_X86(x) x
#else
#define IF_X86(x)
#endif
#ifdef GG_ARCH_ARM
#define IF_ARM(x) x
#else
#define IF_ARM(x)
#endif

/* install_<isa>, one a row: calls gg_install_<unit>_<isa> of each compile unit, or that of the base. */
#define DECLARE(unit, isa, families) void gg_install_##unit##_##isa(gg_kernels *k);
#define INSTALL(unit, isa, families) gg_install_##unit##_##isa(k);
#define ISA(name, needs, arch, base, bytes) IF_##arch(GG_UNITS(DECLARE, name, bytes, base) \
    static void install_##name(gg_kernels *k) { GG_UNITS(INSTALL, name, bytes, base) } \
    static bool has_##name(void) { return HAS_##name; })
#include "../tables/isa.h"
#undef ISA

static const struct { const char *name, *needs; bool (*has)(void); void (*install)(gg_kernels *k); } rows[] = {
#define COMMA ,
#define ISA(name, needs, arch, base, bytes) \
    IF_##arch({#name COMMA needs COMMA has_##name COMMA install_##name} COMMA)
#include "../tables/isa.h"
#undef ISA
};
enum { N_ISA = sizeof rows / sizeof *rows };

static gg_kernels tables[N_ISA];
static bool installed[N_ISA];
static int current = -1;
static const gg_kernels *active;

int gg_isa_count(void) { return N_ISA; }
const char *gg_isa_name(int i) { return rows[i].name; }
const char *gg_isa_needs(int i) { return rows[i].needs; }
bool gg_isa_supported(int i) { return rows[i].has(); }
int gg_isa_current(void) { return current; }
const gg_kernels *gg_isa_active(void) { return active; }

/* Installing a table runs code of the ISA, so the CPU must have it. */
const gg_kernels *gg_isa_kernels(int i) {
    if (!rows[i].has()) return NULL;
    if (!installed[i]) rows[i].install(&tables[i]);
    installed[i] = true;
    return &tables[i];
}
bool gg_isa_select(int i) {
    const gg_kernels *k = gg_isa_kernels(i);
    if (!k) return false;
    gg_isa_kernels(GG_ISA_REFERENCE);              /* so that compute calls never install a table */
    active = k;
    current = i;
    return true;
}
