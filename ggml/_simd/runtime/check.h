/* Whether a node may be computed: by shape, type and parameters (checks.c), and where its data lies (compute.c). */
#ifndef GG_CHECK_H
#define GG_CHECK_H
#include "op_info.h"

enum { GG_MESSAGE = 512 };

/* NULL when t and its sources fit its operation; else the reason, written to msg. What passes is safe to compute once every
 * tensor's own elements (by ne, nb, type) lie in valid memory. Builders call it on a draft, compute on every node. */
const char *gg_check(const ggml_tensor *t, char msg[GG_MESSAGE]);
#endif
