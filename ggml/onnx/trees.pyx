# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""The walk through ensembles of decision trees.

Nodes are in an array in which both children of a node are neighbours and stand behind it, so that every walk ends.
"""
from cpython.buffer cimport PyBuffer_FillInfo
from libc.math cimport INFINITY, isinf
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t

from .._core cimport ggml_tensor

cdef enum:
    BLOCK = 64          # rows that go through one tree before the next one
    MOST = 64           # columns of results in a graph
    ABREAST = 8         # of which so many walk at a time, because each waits for memory

cdef struct TreeNode:
    double split
    int32_t feature     # the column that is compared with the split; -1: a leaf
    int32_t left        # the child where the comparison holds, the other one follows; of a leaf its number

cdef enum:              # comparisons, numbered as by TreeEnsemble
    LEQ, LT, GTE, GT, EQ, NEQ, MEMBER

cdef enum:              # what is made of the weights of all trees
    SUM, MIN, MAX

cdef enum:              # what a row of a graph's result has: all sums; of one sum s two numbers
    EACH, COMPLEMENT, NEGATIVE      # 1 - s and s; -s and s

cdef struct Parts:      # an ensemble without objects
    const TreeNode* nodes
    Py_ssize_t trees
    const uint8_t* modes    # NULL: every node asks whether a feature is at most the split
    const uint8_t* missing
    const int32_t* sets
    const double* members
    const int64_t* first
    const int64_t* targets
    const double* weights
    int aggregate
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
    for k in range(f.sets[place], f.sets[place + 1]):
        if x == f.members[k]:
            return True
    return False


cdef inline Py_ssize_t following(const number* x, const TreeNode* nodes, Py_ssize_t place) noexcept nogil:
    """The node after one that asks whether a feature is at most the split; a leaf itself. There is no branch."""
    cdef const TreeNode* node = &nodes[place]
    cdef Py_ssize_t leaf = node.feature >> 31               # all bits, or none
    cdef Py_ssize_t after = node.left + (not x[node.feature & ~leaf] <= node.split)
    return after ^ ((after ^ place) & leaf)


cdef inline void walk_abreast(const number* x, Py_ssize_t width, Py_ssize_t root, Py_ssize_t roots,
                              const TreeNode* nodes, Py_ssize_t count, Py_ssize_t* leaves) noexcept nogil:
    """The numbers of the leaves that up to ABREAST walks reach where every node asks whether a feature is at most the
    split. From one walk to the next, the row is `width` numbers further, and the root is the next one (roots is 1)."""
    cdef Py_ssize_t place[ABREAST]
    cdef Py_ssize_t i
    cdef int32_t ended = 0
    for i in range(count):
        place[i] = root + i * roots
    if count == ABREAST:
        while ended >= 0:
            ended = -1
            for i in range(ABREAST):
                place[i] = following(x + i * width, nodes, place[i])
                ended &= nodes[place[i]].feature
    for i in range(count):
        while nodes[place[i]].feature >= 0:
            place[i] = following(x + i * width, nodes, place[i])
        leaves[i] = nodes[place[i]].left


cdef void walk(const number* x, Py_ssize_t width, Py_ssize_t rows, const Parts* f, Py_ssize_t root,
               Py_ssize_t* leaves) noexcept nogil:
    """The numbers of the leaves that rows reach, for comparisons of all kinds."""
    cdef Py_ssize_t i, place
    cdef double value
    cdef bint chosen
    for i in range(rows):
        place = root
        while f.nodes[place].feature >= 0:
            value = x[i * width + f.nodes[place].feature]
            chosen = (holds(f.modes[place], value, &f.nodes[place], f, place)
                      or f.missing[place] and value != value)
            place = f.nodes[place].left + (not chosen)
        leaves[i] = f.nodes[place].left


cdef class Forest:
    """The nodes of an ensemble and what its leaves give; holding them as they are takes no time in each call.

    As a buffer, it is what the function at RUN, of a node of a graph, takes as its userdata.

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
    cdef const uint8_t[::1] modes, missing
    cdef const int32_t[::1] sets
    cdef const double[::1] members, weights, base
    cdef const int64_t[::1] first, targets
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


cdef void add_rows(const Parts* f, const number* x, Py_ssize_t width, Py_ssize_t count, double* out,
                   Py_ssize_t columns) noexcept nogil:
    """Forest.add for rows of one type, each `width` numbers behind the one before."""
    cdef Py_ssize_t leaves[ABREAST]
    cdef Py_ssize_t block = 0, stop, tree = 0, row, rows, i
    if f.modes == NULL and count == 1:               # a row goes through several trees at a time
        while tree < f.trees:
            rows = min(<Py_ssize_t>ABREAST, f.trees - tree)
            walk_abreast(x, 0, tree, 1, f.nodes, rows, leaves)
            for i in range(rows):
                gather(f, leaves[i], out)
            tree += rows
        return
    while block < count:
        stop = min(count, block + BLOCK)
        for tree in range(f.trees):
            row = block
            while row < stop:
                rows = min(<Py_ssize_t>ABREAST, stop - row)
                if f.modes == NULL:
                    walk_abreast(x + row * width, width, tree, 0, f.nodes, rows, leaves)
                else:
                    walk(x + row * width, width, rows, f, tree, leaves)
                for i in range(rows):
                    gather(f, leaves[i], out + (row + i) * columns)
                row += rows
        block = stop


# ---- as a node of a graph --------------------------------------------------------------------------------------------
cdef void finish(const Parts* f, double* sums, float* out, float* place) noexcept nogil:
    """What the sums of a row become: numbers, and where the largest is."""
    cdef Py_ssize_t c, best = 0
    for c in range(f.columns):
        sums[c] *= f.factor
        if f.aggregate != SUM and isinf(sums[c]):
            sums[c] = 0
        if f.base != NULL:
            sums[c] += f.base[c]
        if sums[c] > sums[best]:
            best = c
    if f.form == EACH:
        for c in range(f.columns):
            out[c] = <float>sums[c]
    else:
        out[0], out[1] = <float>((1 if f.form == COMPLEMENT else 0) - sums[0]), <float>sums[0]
        best = min(<Py_ssize_t>(sums[0] > (0.5 if f.form == COMPLEMENT else 0)), f.classes - 1)
    if f.classes:
        place[0] = best


cdef void run(ggml_tensor* dst, int ith, int nth, void* data) noexcept nogil:
    """The results of all rows, behind which, if there are classes, is the number of each row's class.

    The operand is contiguous and F32, (rows, features). Tensors that do not fit are left alone.
    """
    cdef const Parts* f = <const Parts*>data
    cdef const ggml_tensor* x = dst.src[0]
    cdef double[BLOCK * MOST] sums
    cdef Py_ssize_t rows = x.ne[1], width = f.columns if f.form == EACH else 2, count, i, k
    cdef Py_ssize_t row = <Py_ssize_t>ith * BLOCK
    cdef float* y = <float*>dst.data
    if x.ne[0] < max(f.features, <Py_ssize_t>1) or f.columns > MOST or dst.ne[0] != rows * (width + (f.classes > 0)):
        return
    while row < rows:
        count = min(<Py_ssize_t>BLOCK, rows - row)
        for i in range(count * f.columns):
            sums[i] = 0 if f.aggregate == SUM else INFINITY if f.aggregate == MIN else -INFINITY
        add_rows(f, <const float*>x.data + row * x.ne[0], x.ne[0], count, sums, f.columns)
        for i in range(count):
            k = row + i
            finish(f, &sums[i * f.columns], y + k * width, y + rows * width + k)
        row += <Py_ssize_t>nth * BLOCK


LARGEST = MOST
RUN = <uintptr_t>&run  # for ggml.ext.compiled
