/* Fusions: steps of a plan that become one step, by the rows of tables/fusions.h. */
#ifndef GG_FUSE_H
#define GG_FUSE_H
#include "plan.h"

bool gg_fuse_enabled(void);
void gg_fuse_enable(bool on);           /* called under the GIL; later compute calls see it */

/* Joins steps of a plan whose steps stand in the order of the graph, each a single node. The memory holds the same
 * afterwards as if each node had been computed alone. Without memory for a fusion, the nodes stay single. */
void gg_fuse(gg_plan *plan);
void gg_fused_free(gg_step *step);      /* what gg_fuse allocated for a step */
#endif
