# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""The walk through ensembles of decision trees.

Nodes are in an array in which both children of a node are neighbours and stand behind it, so that every walk ends.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t

cdef enum:
    BLOCK = 64          # rows that go through one tree before the next one
    ABREAST = 4         # of which so many walk at a time, because each waits for memory

cdef struct TreeNode:
    double split
    int32_t feature     # the column that is compared with the split; -1: a leaf
    int32_t left        # the child where the comparison holds, the other one follows; of a leaf its number

cdef enum:              # comparisons, numbered as by TreeEnsemble
    LEQ, LT, GTE, GT, EQ, NEQ, MEMBER

cdef enum:              # what is made of the weights of all trees
    SUM, MIN, MAX

ctypedef fused number:
    float
    double


cdef inline bint holds(int mode, double x, const TreeNode* node, const int32_t[::1] sets, const double[::1] members,
                       Py_ssize_t place) noexcept nogil:
    """Whether x compares with the split of a node as its mode says, or is in its set."""
    cdef Py_ssize_t k
    if mode == LEQ:
        return x <= node.split
    if mode == LT:
        return x < node.split
    if mode == GTE:
        return x >= node.split
    if mode == GT:
        return x > node.split
    if mode == EQ:
        return x == node.split
    if mode == NEQ:
        return x != node.split
    for k in range(sets[place], sets[place + 1]):
        if x == members[k]:
            return True
    return False


cdef inline Py_ssize_t following(const number[:, ::1] x, Py_ssize_t row, const TreeNode* node) noexcept nogil:
    """The node after one that asks whether a feature is at most the split."""
    return node.left + (not x[row, node.feature] <= node.split)


cdef void walk_abreast(const number[:, ::1] x, Py_ssize_t row, Py_ssize_t rows, Py_ssize_t root, Py_ssize_t roots,
                       const TreeNode* nodes, Py_ssize_t count, Py_ssize_t* leaves) noexcept nogil:
    """The numbers of the leaves that up to ABREAST walks reach where every node asks whether a feature is at most the
    split. From one walk to the next, the row is another (rows is 1), or the root is (roots is 1)."""
    cdef Py_ssize_t place[ABREAST]
    cdef Py_ssize_t i
    for i in range(count):
        place[i] = root + i * roots
    if count == ABREAST:
        while (nodes[place[0]].feature | nodes[place[1]].feature | nodes[place[2]].feature
               | nodes[place[3]].feature) >= 0:      # none is -1
            for i in range(ABREAST):
                place[i] = following(x, row + i * rows, &nodes[place[i]])
    for i in range(count):
        while nodes[place[i]].feature >= 0:
            place[i] = following(x, row + i * rows, &nodes[place[i]])
        leaves[i] = nodes[place[i]].left


cdef void walk(const number[:, ::1] x, Py_ssize_t row, Py_ssize_t rows, const TreeNode* nodes, Py_ssize_t root,
               const uint8_t[::1] modes, const uint8_t[::1] missing, const int32_t[::1] sets,
               const double[::1] members, Py_ssize_t* leaves) noexcept nogil:
    """The numbers of the leaves that rows reach, for comparisons of all kinds."""
    cdef Py_ssize_t i, place
    cdef double value
    cdef bint chosen
    for i in range(rows):
        place = root
        while nodes[place].feature >= 0:
            value = x[row + i, nodes[place].feature]
            chosen = (holds(modes[place], value, &nodes[place], sets, members, place)
                      or missing[place] and value != value)
            place = nodes[place].left + (not chosen)
        leaves[i] = nodes[place].left


cdef class Forest:
    """The nodes of an ensemble and what its leaves give; holding them as they are takes no time in each call.

    Args:
        nodes: roots first, `trees` of them; structured, as TreeNode.
        trees: the number of trees.
        modes: a comparison for each node; empty if all are x <= split.
        missing: for each node whether NaN chooses its first child; empty as modes.
        sets: where the set of each node begins in members, and the end; empty if there is none.
        members: the values of all sets.
        first: where the targets and weights of each leaf begin, and their end.
        targets: columns of the results.
        weights: what leaves give.
        aggregate: 0 adds weights, 1 keeps the least, 2 the largest.
    """
    cdef const TreeNode[::1] nodes
    cdef Py_ssize_t trees
    cdef const uint8_t[::1] modes, missing
    cdef const int32_t[::1] sets
    cdef const double[::1] members, weights
    cdef const int64_t[::1] first, targets
    cdef int aggregate

    def __init__(self, nodes, trees, modes, missing, sets, members, first, targets, weights, aggregate):
        self.nodes, self.trees, self.modes, self.missing, self.sets = nodes, trees, modes, missing, sets
        self.members, self.first, self.targets, self.weights = members, first, targets, weights
        self.aggregate = aggregate

    def add(self, x, Py_ssize_t begin, Py_ssize_t end, double[:, ::1] out):
        """Adds the weights of the leaves that rows reach to their results, or keeps the least or largest of them.

        Args:
            x: float32 or float64 values (rows, features), more features than any node asks for.
            begin, end: the rows to compute.
            out: results (rows, columns).
        """
        cdef const float[:, ::1] single
        cdef const double[:, ::1] wide
        if x.itemsize == 4:
            single = x
            with nogil:
                add_rows(self, single, begin, end, out)
        else:
            wide = x
            with nogil:
                add_rows(self, wide, begin, end, out)


cdef inline void gather(Forest f, Py_ssize_t leaf, double* out) noexcept nogil:
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


cdef void add_rows(Forest f, const number[:, ::1] x, Py_ssize_t begin, Py_ssize_t end,
                   double[:, ::1] out) noexcept nogil:
    """Forest.add for values of one type."""
    cdef Py_ssize_t leaves[ABREAST]
    cdef Py_ssize_t block = begin, stop, tree, row, rows, i
    cdef const TreeNode* root = &f.nodes[0]
    cdef bint plain = f.modes.shape[0] == 0
    if plain and end - begin == 1:                   # a row goes through several trees at a time
        tree = 0
        while tree < f.trees:
            rows = min(<Py_ssize_t>ABREAST, f.trees - tree)
            walk_abreast(x, begin, 0, tree, 1, root, rows, leaves)
            for i in range(rows):
                gather(f, leaves[i], &out[begin, 0])
            tree += rows
        return
    while block < end:
        stop = min(end, block + BLOCK)
        for tree in range(f.trees):
            row = block
            while row < stop:
                rows = min(<Py_ssize_t>ABREAST, stop - row)
                if plain:
                    walk_abreast(x, row, 1, tree, 0, root, rows, leaves)
                else:
                    walk(x, row, rows, root, tree, f.modes, f.missing, f.sets, f.members, leaves)
                for i in range(rows):
                    gather(f, leaves[i], &out[row + i, 0])
                row += rows
        block = stop
