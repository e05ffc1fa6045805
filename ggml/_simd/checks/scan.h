/* Checks of CUMSUM: check_UNARY is all it needs. */
#ifndef GG_CHECKS_SCAN_H
#define GG_CHECKS_SCAN_H
#include "common.h"

#endif
