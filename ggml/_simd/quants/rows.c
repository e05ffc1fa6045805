/* Rows of any type: validation and byte order, from the description of the type's block (tables/blocks.h). */
#include "rows.h"
#include "blocks.h"

enum {
#define NUMBER(number, c_type, together, exponent) NUMBER_##number,
    GG_NUMBERS(NUMBER)
#undef NUMBER
};
static const struct { uint8_t width, together; uint64_t exponent; } numbers[] = {
#define NUMBER(number, c_type, together, exponent) {sizeof(c_type), together, exponent},
    GG_NUMBERS(NUMBER)
#undef NUMBER
};

/* The fields of a block lie one after the other, as the size of its struct proves; a count of 0 ends the list. */
enum { MAX_FIELDS = 5 };
typedef struct { uint8_t number; uint16_t count; } field;
static const field fields[GG_TYPE_MAX][MAX_FIELDS + 1] = {
#define ONE(number, name) {NUMBER_##number, 1},
#define MANY(number, name, count) {NUMBER_##number, count},
#define TYPE(id, NAME, name, blck, bytes, kind, activation, encoder, grid) [id] = {BLOCK_##name(ONE, MANY)},
#include "../tables/types.h"
#undef TYPE
#undef ONE
#undef MANY
};

/* ---- validation -------------------------------------------------------------------------------------------------- */
/* Of each block of `stride` bytes from p to end, `count` integers of `width` bytes have a clear bit in `exponent`. */
static bool all_finite(const char *p, const char *end, size_t stride, int count, int width, uint64_t exponent) {
#define CHECK(word) \
    for (; p < end; p += stride) \
        for (int i = 0; i < count; i++) { \
            word u; \
            memcpy(&u, p + (size_t)i * sizeof u, sizeof u); \
            if ((u & exponent) == exponent) return false; \
        } \
    return true;
    switch (width) {
    case 1: CHECK(uint8_t)
    case 2: CHECK(uint16_t)
    case 4: CHECK(uint32_t)
    default: CHECK(uint64_t)
    }
#undef CHECK
}
bool gg_validate_rows(int type, const void *data, size_t nbytes) {
    if (!gg_type_ok(type) || nbytes % (size_t)gg_types[type].bytes) return false;
    const size_t stride = (size_t)gg_types[type].bytes;
    const char *p = data, *const end = p + nbytes;
    for (const field *f = fields[type]; f->count; p += f->count * numbers[f->number].width, f++) {
        const int together = numbers[f->number].together, width = together * numbers[f->number].width;
        const uint64_t exponent = numbers[f->number].exponent;
        if (exponent && !all_finite(p, end, stride, f->count / together, width, exponent)) return false;
    }
    return true;
}

/* ---- byte order -------------------------------------------------------------------------------------------------- */
/* Reverses `count` integers of `width` bytes in each block of `stride` bytes from p to end. */
static void reverse(char *p, const char *end, size_t stride, int count, int width) {
#define REVERSE(bits) \
    for (; p < end; p += stride) \
        for (int i = 0; i < count; i++) { \
            uint##bits##_t u; \
            memcpy(&u, p + (size_t)i * sizeof u, sizeof u); \
            u = __builtin_bswap##bits(u); \
            memcpy(p + (size_t)i * sizeof u, &u, sizeof u); \
        }
    switch (width) {
    case 2: REVERSE(16) break;
    case 4: REVERSE(32) break;
    case 8: REVERSE(64) break;
    }
#undef REVERSE
}
void gg_byteswap_rows(int type, void *data, size_t nbytes) {
    char *p = data, *const end = p + nbytes;
    for (const field *f = fields[type]; f->count; p += f->count * numbers[f->number].width, f++)
        reverse(p, end, (size_t)gg_types[type].bytes, f->count, numbers[f->number].width);
}
