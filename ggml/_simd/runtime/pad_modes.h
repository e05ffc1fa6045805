/* What PAD puts around a tensor, the parameter `mode` of its nodes. */
#ifndef GG_PAD_MODES_H
#define GG_PAD_MODES_H

enum {
    GG_PAD_ZERO,                                               /* or another number */
    GG_PAD_CIRCULAR,                                           /* the tensor again */
    GG_PAD_REFLECT,                                            /* its mirror image, without the first or last element */
    GG_PAD_EDGE,                                               /* its first or last element */
    GG_PAD_COUNT
};

#endif
