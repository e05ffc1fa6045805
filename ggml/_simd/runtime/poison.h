/* Marks memory that nothing may touch, for the address sanitizer. Empty in ordinary builds. */
#ifndef GG_POISON_H
#define GG_POISON_H
#include <stdbool.h>
#include <stddef.h>
#if defined __has_feature
#if __has_feature(address_sanitizer)
#define GG_ASAN 1
#endif
#elif defined __SANITIZE_ADDRESS__
#define GG_ASAN 1
#endif

#ifdef GG_ASAN
#include <sanitizer/asan_interface.h>
static const size_t GG_RED_ZONE = 64;   /* bytes that follow every object of an arena and nobody may touch */
/* At most 256 MiB: marking takes an eighth of the memory. */
static inline void gg_poison(const void *p, size_t n) {
    __asan_poison_memory_region(p, n < (size_t)1 << 28 ? n : (size_t)1 << 28);
}
static inline void gg_unpoison(const void *p, size_t n) { __asan_unpoison_memory_region(p, n); }
#define GG_READS_RED_ZONES __attribute__((no_sanitize("address")))   /* a function that may do so */
static inline bool gg_poisoned(const void *p, size_t n) { return __asan_region_is_poisoned((void *)p, n); }
#else
#define GG_READS_RED_ZONES
static inline bool gg_poisoned(const void *p, size_t n) { (void)p, (void)n; return false; }
static const size_t GG_RED_ZONE = 0;
static inline void gg_poison(const void *p, size_t n) { (void)p, (void)n; }
static inline void gg_unpoison(const void *p, size_t n) { (void)p, (void)n; }
#endif
#endif
