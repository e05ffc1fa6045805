/* Packed rows of any type: validation and byte order. */
#ifndef GG_QUANTS_ROWS_H
#define GG_QUANTS_ROWS_H
#include "../runtime/engine.h"

/* Whether the data are whole blocks and every floating-point number in them (for floats: every value; in quantised
 * types: every scale and minimum) is finite, so that all elements decode to numbers. */
bool gg_validate_rows(int type, const void *data, size_t nbytes);
/* Reverses the bytes of every number in whole blocks of a type: converts to and from files of the other byte order. */
void gg_byteswap_rows(int type, void *data, size_t nbytes);
#endif
