/* The algorithms of convolutions that multiply bytes (tables/conv.h). */
#ifndef GG_OPS_CONV_BYTES_H
#define GG_OPS_CONV_BYTES_H
#include "conv/bytes.h"
#include "conv/bytes_winograd.h"

#endif
