/* Whether a node may be computed, by shapes, types and parameters (checks/). */
#ifndef GG_CHECK_H
#define GG_CHECK_H
#include "op_info.h"

enum { GG_MESSAGE = 512 };

/* NULL if t and its sources fit its operation; otherwise msg, with the reason. A node that passes is safe to compute
 * once the elements of every tensor (by ne, nb and type) lie in valid memory. Builders check a node before they add it
 * to the context, and every compute call checks all nodes. */
const char *gg_check(const ggml_tensor *t, char msg[GG_MESSAGE]);
#endif
