/* What COMPARE asks of two numbers, the parameter `relation` of its nodes. */
#ifndef GG_RELATIONS_H
#define GG_RELATIONS_H

enum {
    GG_COMPARE_EQUAL, GG_COMPARE_UNEQUAL, GG_COMPARE_LESS, GG_COMPARE_LESS_EQUAL, GG_COMPARE_GREATER,
    GG_COMPARE_GREATER_EQUAL,
    GG_COMPARE_AND, GG_COMPARE_OR,                             /* of truth values: what is not 0 is true */
    GG_COMPARE_COUNT
};

#endif
