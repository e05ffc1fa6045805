/* The ISAs of this build: which the CPU has, which is in use. */
#ifndef GG_DISPATCH_H
#define GG_DISPATCH_H
#include "kernel.h"

int gg_isa_count(void);                        /* rows of tables/isa.h in this build */
const char *gg_isa_name(int i);
const char *gg_isa_needs(int i);
bool gg_isa_supported(int i);                  /* by this CPU and its operating system */
int gg_isa_current(void);
enum { GG_ISA_REFERENCE = 0 };                 /* the row `scalar`, which use_ref computes with */
const gg_kernels *gg_isa_active(void);         /* the kernels in use, for what is not part of a compute call */
bool gg_isa_select(int i);                     /* false: not supported */
const gg_kernels *gg_isa_kernels(int i);       /* NULL: not supported */
bool gg_cpu_has(const char *feature);          /* "avx", "avx2", "neon", ...: see dispatch.c */
#endif
