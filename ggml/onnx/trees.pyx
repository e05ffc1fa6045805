# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""The walk through ensembles of decision trees.

Nodes are in an array in which both children of a node are neighbours and stand behind it, so that every walk ends. The
first levels of a tree, where most of their nodes exist, are complete in a copy: the children of node i are 2 i + 1 and
2 i + 2, so that a walk through them reads no links and does not ask whether it has ended.
"""
from cpython.buffer cimport PyBuffer_FillInfo
from libc.math cimport INFINITY, isinf
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t

from .._core cimport ggml_tensor

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>
    typedef struct { double split; int32_t feature, left; } gg_tree_node;   // TreeNode
    #define GG_WALKS 8      // ABREAST

    // Whether a number is an integer below 64, and its bit is in the mask in place of a node's split
    static inline int gg_has_bit(double x, const void *node) {
        const double large = 4503599627370496.0, sum = x + large;   // 2^52: the last bits of the sum are the integer
        uint64_t mask, bits;
        memcpy(&mask, &((const gg_tree_node *)node)->split, sizeof mask);
        memcpy(&bits, &sum, sizeof bits);
        return (sum - large == x) & (bits >> 6 == 0x4330000000000000 >> 6) & (int)(mask >> (bits & 63) & 1);
    }

    // Whether a number goes to the right: a way says whether NaN goes to the left, and whether there is a mask
    enum { GG_NAN_LEFT = 1, GG_MASK = 2 };
    #define GG_NOT_NAN_LEFT ((v == v) | !(ways[at[i]] & GG_NAN_LEFT))
    #define GG_RIGHT ((!(v <= node->split)) & GG_NOT_NAN_LEFT)
    #define GG_RIGHT_OR_MASK ((!gg_chosen(v, node, ways[at[i]] / GG_MASK)) & GG_NOT_NAN_LEFT)
    static inline int gg_chosen(double v, const gg_tree_node *node, int mask) {     // without a branch
        const int least = v <= node->split;
        return least ^ ((least ^ gg_has_bit(v, node)) & mask);
    }

    #if defined(__GNUC__) && !defined(__clang__)
    #define GG_UNROLL _Pragma("GCC unroll 8")
    #else
    #define GG_UNROLL
    #endif
    #define GG_LEVELS(RIGHT)                                                                                       \
        for (int level = 0; level < levels; level++)                                                               \
            GG_UNROLL for (int i = 0; i < GG_WALKS; i++) {                                                         \
                const gg_tree_node *node = top + at[i];                                                            \
                const gg_number v = x[i * width + node->feature];                                                  \
                at[i] = 2 * at[i] + 1 + (RIGHT);                                                                   \
            }

    // The places that GG_WALKS rows, `width` numbers apart, reach in the levels of a tree that are complete. ways: one
    // for each node of them, NULL if all are 0; masks: some of them say that there is a mask.
    #define GG_DESCEND(NAME, TYPE)                                                                                 \
        static inline void NAME(const TYPE *x, ptrdiff_t width, const void *nodes, const uint8_t *ways, int masks, \
                                const int32_t *exits, int levels, ptrdiff_t *places) {                             \
            typedef TYPE gg_number;                                                                                \
            const gg_tree_node *top = (const gg_tree_node *)nodes;                                                 \
            size_t at[GG_WALKS] = {0};                                                                             \
            if (!ways) GG_LEVELS(!(v <= node->split))                                                              \
            else if (masks) GG_LEVELS(GG_RIGHT_OR_MASK)                                                            \
            else GG_LEVELS(GG_RIGHT)                                                                               \
            for (int i = 0; i < GG_WALKS; i++) places[i] = exits[at[i] + 1 - ((size_t)1 << levels)];               \
        }
    GG_DESCEND(gg_descend_single, float)
    GG_DESCEND(gg_descend_double, double)

    // The leaves that GG_WALKS rows reach from places, where all nodes have splits or masks
    #define GG_WALK_MASKS(NAME, TYPE)                                                                              \
        static void NAME(const TYPE *x, ptrdiff_t width, const void *nodes, const uint8_t *modes,                  \
                         const uint8_t *missing, ptrdiff_t *places) {                                              \
            const gg_tree_node *all = (const gg_tree_node *)nodes;                                                 \
            int32_t ended;                                                                                         \
            do {                                                                                                   \
                ended = -1;                                                                                        \
                GG_UNROLL for (int i = 0; i < GG_WALKS; i++) {                                                     \
                    const ptrdiff_t at = places[i], leaf = all[at].feature >> 31;                                  \
                    const TYPE v = x[i * width + (all[at].feature & ~leaf)];                                       \
                    const int left = gg_chosen(v, all + at, modes[at] != 0) | ((v != v) & (missing[at] != 0));     \
                    const ptrdiff_t next = all[at].left + !left;                                                   \
                    places[i] = next ^ ((next ^ at) & leaf);                                                       \
                    ended &= all[places[i]].feature;                                                               \
                }                                                                                                  \
            } while (ended >= 0);                                                                                  \
        }
    GG_WALK_MASKS(gg_walk_masks_single, float)
    GG_WALK_MASKS(gg_walk_masks_double, double)
    """
    bint gg_has_bit(double x, const void* node) noexcept nogil
    void gg_walk_masks_single(const float* x, Py_ssize_t width, const void* nodes, const uint8_t* modes,
                              const uint8_t* missing, Py_ssize_t* places) noexcept nogil
    void gg_walk_masks_double(const double* x, Py_ssize_t width, const void* nodes, const uint8_t* modes,
                              const uint8_t* missing, Py_ssize_t* places) noexcept nogil
    void gg_descend_single(const float* x, Py_ssize_t width, const void* nodes, const uint8_t* ways, bint masks,
                           const int32_t* exits, int levels, Py_ssize_t* places) noexcept nogil
    void gg_descend_double(const double* x, Py_ssize_t width, const void* nodes, const uint8_t* ways, bint masks,
                           const int32_t* exits, int levels, Py_ssize_t* places) noexcept nogil

cdef enum:
    BLOCK = 64          # rows that go through one tree before the next one
    MOST = 64           # columns of results in a graph
    ABREAST = 8         # of which so many walk at a time, because each waits for memory
    TOGETHER = 256      # trees whose leaves are found before their weights are added, for one row
    LEVELS = 10         # most levels that are complete
    DENSE = 8           # most columns of which every leaf has weights, zeros where it gives none

cdef struct TreeNode:
    double split
    int32_t feature     # the column that is compared with the split; -1: a leaf
    int32_t left        # the child where the comparison holds, the other one follows; of a leaf its number

cdef enum:              # comparisons, numbered as by TreeEnsemble, whose others are replaced (compare_alike)
    LEQ, EQ = 4, NEQ, MEMBER, BITS      # BITS: whether the bit of an integer below 64 is in the mask `split`

cdef enum:              # what is made of the weights of all trees
    SUM, MIN, MAX

cdef enum:              # what a row of a graph's result has: all sums; of one sum s two numbers
    EACH, COMPLEMENT, NEGATIVE      # 1 - s and s; -s and s

cdef struct Parts:      # an ensemble without objects
    const TreeNode* nodes
    Py_ssize_t trees
    const uint8_t* modes    # NULL: every node asks whether a feature is at most the split
    bint masks              # there are modes, LEQ and BITS, but no others
    const uint8_t* missing  # NULL: NaN chooses no first child
    const int32_t* sets
    const double* members
    const int64_t* first
    const int64_t* targets
    const double* weights
    int aggregate
    const TreeNode* tops    # complete levels of all trees
    const uint8_t* ways     # GG_NAN_LEFT and GG_MASK of their nodes; NULL: all are 0
    const int32_t* exits    # the node that follows each node of their last level, on both sides
    const int32_t* levels   # the number for each tree; NULL: there are none
    const double* dense     # (leaves, width): sums are of these; NULL: of weights
    Py_ssize_t width
    # in a graph
    Py_ssize_t features, columns, classes   # classes: 0 if the largest sum is not asked for
    double factor                           # of the sums
    const double* base                      # added to each, or NULL
    int form

ctypedef fused number:
    float
    double


cdef inline bint holds(int mode, double x, const TreeNode* node, const Parts* f, Py_ssize_t place) noexcept nogil:
    """Whether x compares with the split of a node as its mode says, or is in its set."""
    cdef Py_ssize_t k
    if mode == LEQ:
        return x <= node.split
    if mode == EQ:
        return x == node.split
    if mode == NEQ:
        return x != node.split
    if mode == BITS:
        return gg_has_bit(x, node)
    for k in range(f.sets[place], f.sets[place + 1]):
        if x == f.members[k]:
            return True
    return False


cdef inline Py_ssize_t following(const number* x, const TreeNode* nodes, const uint8_t* missing,
                                 Py_ssize_t place) noexcept nogil:
    """The node after one that asks whether a feature is at most the split; a leaf itself. There is no branch.

    missing: for each node whether NaN goes to the left; NULL if it never does."""
    cdef const TreeNode* node = &nodes[place]
    cdef Py_ssize_t leaf = node.feature >> 31               # all bits, or none
    cdef number v = x[node.feature & ~leaf]
    cdef Py_ssize_t right = not v <= node.split
    if missing != NULL:
        right &= (v == v) | (missing[place] == 0)
    cdef Py_ssize_t after = node.left + right
    return after ^ ((after ^ place) & leaf)


cdef inline Py_ssize_t after(const number* x, const Parts* f, Py_ssize_t place) noexcept nogil:
    """The node after one that compares in any way; a leaf itself."""
    cdef const TreeNode* node = &f.nodes[place]
    cdef Py_ssize_t leaf = node.feature >> 31               # all bits, or none
    cdef number v = x[node.feature & ~leaf]
    cdef bint chosen = holds(f.modes[place], v, node, f, place) or f.missing[place] and v != v
    return place if leaf else node.left + (not chosen)


cdef inline void finish_walks(const number* x, Py_ssize_t width, const TreeNode* nodes, const uint8_t* missing,
                              Py_ssize_t count, Py_ssize_t* places) noexcept nogil:
    """Replaces the places of up to ABREAST walks by the leaves that they reach, where every node asks whether a feature
    is at most the split. From one walk to the next, the row is `width` numbers further."""
    cdef Py_ssize_t i
    cdef int32_t ended = -1
    if count == ABREAST:
        for i in range(ABREAST):
            ended &= nodes[places[i]].feature
        while ended >= 0:
            ended = -1
            for i in range(ABREAST):
                places[i] = following(x + i * width, nodes, missing, places[i])
                ended &= nodes[places[i]].feature
    for i in range(count):
        while nodes[places[i]].feature >= 0:
            places[i] = following(x + i * width, nodes, missing, places[i])


cdef void finish_any(const number* x, Py_ssize_t width, const Parts* f, Py_ssize_t count,
                     Py_ssize_t* places) noexcept nogil:
    """The same for comparisons of all kinds."""
    cdef Py_ssize_t i
    cdef int32_t ended = -1 if count < ABREAST else 0
    if f.masks and count == ABREAST:
        if number is float:
            gg_walk_masks_single(x, width, f.nodes, f.modes, f.missing, places)
        else:
            gg_walk_masks_double(x, width, f.nodes, f.modes, f.missing, places)
        return
    while ended >= 0:
        ended = -1
        for i in range(ABREAST):
            places[i] = after(x + i * width, f, places[i])
            ended &= f.nodes[places[i]].feature
    for i in range(count):
        while f.nodes[places[i]].feature >= 0:
            places[i] = after(x + i * width, f, places[i])


cdef inline void finish_from(const number* x, Py_ssize_t width, const Parts* f, const uint8_t* missing,
                             Py_ssize_t count, Py_ssize_t* places) noexcept nogil:
    """Replaces the places of up to ABREAST walks by the numbers of the leaves that they reach."""
    cdef Py_ssize_t i
    if f.modes != NULL:
        finish_any(x, width, f, count, places)
    else:
        finish_walks(x, width, f.nodes, missing, count, places)
    for i in range(count):
        places[i] = f.nodes[places[i]].left


cdef void walk_trees(const number* x, const Parts* f, const uint8_t* missing, Py_ssize_t first, Py_ssize_t count,
                     Py_ssize_t* leaves) noexcept nogil:
    """The numbers of the leaves that a row reaches in trees from the first one on.

    ABREAST of them at a time; where a walk ends, that of the next tree begins, without a branch.
    """
    cdef const TreeNode* nodes = f.nodes
    cdef const TreeNode* node
    cdef Py_ssize_t places[ABREAST]
    cdef Py_ssize_t trees[ABREAST]
    cdef Py_ssize_t i, leaf, after, next_tree = min(<Py_ssize_t>ABREAST, count), rest
    for i in range(next_tree):
        places[i] = first + i
        trees[i] = i
    while f.modes == NULL and next_tree + ABREAST <= count:
        for i in range(ABREAST):
            node = &nodes[places[i]]
            leaf = node.feature >> 31                       # all bits, or none
            leaves[trees[i]] = node.left                    # which is its number if this is a leaf
            after = following(x, nodes, missing, places[i])
            places[i] = after ^ ((after ^ (first + next_tree)) & leaf)
            trees[i] ^= (trees[i] ^ next_tree) & leaf
            next_tree -= leaf
    rest = min(<Py_ssize_t>ABREAST, count)
    while rest > 0:
        finish_from(x, 0, f, missing, rest, places)
        for i in range(rest):
            leaves[trees[i]] = places[i]
        rest = min(<Py_ssize_t>ABREAST, count - next_tree)
        for i in range(rest):
            places[i], trees[i] = first + next_tree + i, next_tree + i
        next_tree += rest


cdef class Forest:
    """The nodes of an ensemble and what its leaves give; holding them as they are takes no time in each call.

    As a buffer, it is what the function at RUN, of a node of a graph, takes as its userdata.

    Args:
        nodes: roots first, `trees` of them; structured, as TreeNode.
        trees: the number of trees.
        modes: a comparison for each node; empty if all are x <= split.
        missing: for each node whether NaN chooses its first child; empty if it never does, and there are no modes.
        sets: where the set of each node begins in members, and the end; empty if there is none.
        members: the values of all sets.
        first: where the targets and weights of each leaf begin, and their end.
        targets: columns of the results.
        weights: what leaves give.
        aggregate: 0 adds weights, 1 keeps the least, 2 the largest.
    """
    cdef const TreeNode[::1] nodes
    cdef const uint8_t[::1] modes, missing
    cdef const int32_t[::1] sets
    cdef const double[::1] members, weights, base
    cdef const int64_t[::1] first, targets
    cdef const TreeNode[::1] tops
    cdef const uint8_t[::1] ways
    cdef const int32_t[::1] exits, levels
    cdef const double[:, ::1] dense
    cdef Parts parts

    def __init__(self, nodes, trees, modes, missing, sets, members, first, targets, weights, aggregate):
        cdef Parts* f = &self.parts
        self.nodes, self.modes, self.missing, self.sets = nodes, modes, missing, sets
        self.members, self.first, self.targets, self.weights = members, first, targets, weights
        f.nodes, f.first, f.trees, f.aggregate, f.factor = &self.nodes[0], &self.first[0], trees, aggregate, 1
        f.modes = &self.modes[0] if len(modes) else NULL
        f.missing = &self.missing[0] if len(missing) else NULL
        f.sets = &self.sets[0] if len(sets) else NULL
        f.members = &self.members[0] if len(members) else NULL
        f.targets = &self.targets[0] if len(targets) else NULL
        f.weights = &self.weights[0] if len(weights) else NULL

    def hasten(self, tops, ways, exits, levels, dense):
        """Adds what makes walks shorter: complete levels of trees without modes but masks, and weights of all columns.

        Args:
            tops: 2^levels - 1 nodes of each tree; ways: for each whether NaN goes to the left (1) and a mask stands in
                place of the split (2), empty if all are 0; exits: 2^levels nodes of each; levels: int32, one for each
                tree, at most LEVELS; None for no complete levels.
            dense: float64 (leaves, columns), whose columns are those of all results; or None.
        """
        cdef Parts* f = &self.parts
        if levels is not None:
            self.tops, self.exits, self.levels = tops, exits, levels
            f.tops, f.exits, f.levels, f.masks = &self.tops[0], &self.exits[0], &self.levels[0], f.modes != NULL
            if len(ways):
                self.ways = ways
                f.ways = &self.ways[0]
        if dense is not None:
            self.dense = dense
            f.dense, f.width = &self.dense[0, 0], self.dense.shape[1]

    def give(self, features, columns, factor, classes, form, base):
        """Says what a node of a graph gives for each row of so many features: sums in columns, times a factor.

        Args:
            classes: the number of classes of which the column with the largest sum is one, 0 if none is asked for.
            form: 0; for one column s of the second of two classes, 1 gives 1 - s and s, 2 gives -s and s.
            base: float64 numbers to add, one for each column, or None.
        """
        cdef Parts* f = &self.parts
        f.features, f.columns, f.factor, f.classes, f.form = features, columns, factor, classes, form
        f.base = NULL
        if base is not None:
            self.base = base
            f.base = &self.base[0]

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, &self.parts, sizeof(Parts), True, flags)

    def add(self, x, Py_ssize_t begin, Py_ssize_t end, double[:, ::1] out):
        """Adds the weights of the leaves that rows reach to their results, or keeps the least or largest of them.

        Args:
            x: float32 or float64 values (rows, features), more features than any node asks for.
            begin, end: the rows to compute.
            out: results (rows, columns).
        """
        cdef const float[:, ::1] single
        cdef const double[:, ::1] wide
        cdef Py_ssize_t columns = out.shape[1]
        if begin >= end:
            return
        if x.itemsize == 4:
            single = x
            with nogil:
                add_rows(&self.parts, &single[begin, 0], single.shape[1], end - begin, &out[begin, 0], columns)
        else:
            wide = x
            with nogil:
                add_rows(&self.parts, &wide[begin, 0], wide.shape[1], end - begin, &out[begin, 0], columns)


cdef inline void gather(const Parts* f, Py_ssize_t leaf, double* out) noexcept nogil:
    """Adds what a leaf gives to a row of results, or keeps the least or largest."""
    cdef int64_t k
    cdef double* to
    for k in range(f.first[leaf], f.first[leaf + 1]):
        to = out + f.targets[k]
        if f.aggregate == SUM:
            to[0] += f.weights[k]
        elif f.aggregate == MIN:
            to[0] = min(to[0], f.weights[k])
        else:
            to[0] = max(to[0], f.weights[k])


cdef inline void gather_rows(const Parts* f, const Py_ssize_t* leaves, Py_ssize_t rows, double* out,
                             Py_ssize_t columns) noexcept nogil:
    """The same for rows of results that follow each other."""
    cdef Py_ssize_t i, c
    cdef const double* weights
    for i in range(rows):
        if f.dense == NULL or f.width != columns:
            gather(f, leaves[i], out + i * columns)
            continue
        weights = f.dense + leaves[i] * columns
        for c in range(columns):
            out[i * columns + c] += weights[c]


cdef inline void descend(const Parts* f, const number* x, Py_ssize_t width, bint missing, Py_ssize_t top,
                         Py_ssize_t tree, int levels, Py_ssize_t* places) noexcept nogil:
    """The places that ABREAST rows reach in the complete levels of a tree.

    missing: NaN may go to the left; top: where the exits of the tree begin.
    """
    cdef const TreeNode* nodes = f.tops + top - tree
    cdef const int32_t* exits = f.exits + top
    cdef const uint8_t* ways = f.ways + top - tree if f.masks or missing else NULL
    if number is float:
        gg_descend_single(x, width, nodes, ways, f.masks, exits, levels, places)
    else:
        gg_descend_double(x, width, nodes, ways, f.masks, exits, levels, places)


cdef bint some_nan(const number* x, Py_ssize_t n) noexcept nogil:
    """Whether one of n numbers is NaN."""
    cdef Py_ssize_t i
    cdef int found = 0
    for i in range(n):
        found |= x[i] != x[i]
    return found


cdef void add_rows(const Parts* f, const number* x, Py_ssize_t width, Py_ssize_t count, double* out,
                   Py_ssize_t columns) noexcept nogil:
    """Forest.add for rows of one type, each `width` numbers behind the one before."""
    cdef Py_ssize_t leaves[ABREAST]
    cdef Py_ssize_t found[TOGETHER]
    cdef Py_ssize_t block = 0, stop, tree = 0, row, rows, i, top
    cdef int levels
    cdef const uint8_t* missing = f.missing if f.missing != NULL and some_nan(x, count * width) else NULL
    if count == 1:
        while tree < f.trees:
            rows = min(<Py_ssize_t>TOGETHER, f.trees - tree)
            walk_trees(x, f, missing, tree, rows, found)
            for i in range(rows):
                gather_rows(f, found + i, 1, out, columns)
            tree += rows
        return
    while block < count:
        stop, top = min(count, block + BLOCK), 0
        for tree in range(f.trees):
            row, levels = block, f.levels[tree] if f.levels != NULL else 0
            while row < stop:
                rows = min(<Py_ssize_t>ABREAST, stop - row)
                if rows == ABREAST and levels:
                    descend(f, x + row * width, width, missing != NULL, top, tree, levels, leaves)
                else:
                    for i in range(rows):
                        leaves[i] = tree
                finish_from(x + row * width, width, f, missing, rows, leaves)
                gather_rows(f, leaves, rows, out + row * columns, columns)
                row += rows
            top += 1 << levels
        block = stop


# ---- as a node of a graph --------------------------------------------------------------------------------------------
cdef void finish(const Parts* f, double* sums, Py_ssize_t rows, float* out, float* places) noexcept nogil:
    """What the sums of rows become: numbers, and where the largest of each row is."""
    cdef Py_ssize_t n = rows * f.columns, row, c, best
    cdef double least = 0.5 if f.form == COMPLEMENT else 0
    if f.factor != 1:
        for c in range(n):
            sums[c] *= f.factor
    if f.aggregate != SUM:
        for c in range(n):
            if isinf(sums[c]):
                sums[c] = 0
    if f.base != NULL:
        for row in range(rows):
            for c in range(f.columns):
                sums[row * f.columns + c] += f.base[c]
    if f.form == EACH:
        for c in range(n):
            out[c] = <float>sums[c]
    else:
        for row in range(rows):
            out[2 * row], out[2 * row + 1] = <float>(2 * least - sums[row]), <float>sums[row]
    if f.classes and f.form == EACH:
        for row in range(rows):
            best = 0
            for c in range(1, f.columns):
                if sums[row * f.columns + c] > sums[row * f.columns + best]:
                    best = c
            places[row] = best
    elif f.classes:
        for row in range(rows):
            places[row] = min(<Py_ssize_t>(sums[row] > least), f.classes - 1)


cdef void run(ggml_tensor* dst, int ith, int nth, void* data) noexcept nogil:
    """The results of all rows, behind which, if there are classes, is the number of each row's class.

    The operand is contiguous and F32 or F64, (rows, features). Tensors that do not fit are left alone.
    """
    cdef const Parts* f = <const Parts*>data
    cdef const ggml_tensor* x = dst.src[0]
    cdef double[BLOCK * MOST] sums
    cdef Py_ssize_t rows = x.ne[1], width = f.columns if f.form == EACH else 2, count, i
    cdef Py_ssize_t row = <Py_ssize_t>ith * BLOCK
    cdef float* y = <float*>dst.data
    if x.ne[0] < max(f.features, <Py_ssize_t>1) or f.columns > MOST or dst.ne[0] != rows * (width + (f.classes > 0)):
        return
    while row < rows:
        count = min(<Py_ssize_t>BLOCK, rows - row)
        for i in range(count * f.columns):
            sums[i] = 0 if f.aggregate == SUM else INFINITY if f.aggregate == MIN else -INFINITY
        if x.nb[0] == sizeof(double):
            add_rows(f, <const double*>x.data + row * x.ne[0], x.ne[0], count, sums, f.columns)
        else:
            add_rows(f, <const float*>x.data + row * x.ne[0], x.ne[0], count, sums, f.columns)
        finish(f, sums, count, y + row * width, y + rows * width + row)
        row += <Py_ssize_t>nth * BLOCK


LARGEST, TOPS, FILLED, MASKED = MOST, LEVELS, DENSE, BITS
RUN = <uintptr_t>&run  # for ggml.ext.compiled
