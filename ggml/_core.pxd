# What the other modules cimport: the engine's structs and functions, errors, arguments, results, memory, nodes, graphs.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "<stdbool.h>":
    ctypedef bint cbool "bool"

# ---- the engine ------------------------------------------------------------------------------------------------------
cdef extern from "runtime/engine.h" nogil:
    enum: GGML_TYPE_COUNT, GG_TYPE_MAX, GGML_OP_COUNT, GG_OP_MAX, GGML_MAX_SRC, GGML_MAX_NAME
    enum: GGML_DEFAULT_GRAPH_SIZE, GGML_N_TASKS_MAX
    enum: GGML_TENSOR_FLAG_INPUT, GGML_TENSOR_FLAG_OUTPUT, GGML_TENSOR_FLAG_PARAM, GGML_TENSOR_FLAG_LOSS
    enum: GGML_TENSOR_FLAG_COMPUTE
    enum: GGML_STATUS_SUCCESS, GGML_STATUS_FAILED, GGML_STATUS_ABORTED, GGML_STATUS_ALLOC_FAILED
    enum: GGML_OBJECT_TYPE_TENSOR, GGML_OBJECT_TYPE_WORK_BUFFER
    ctypedef struct ggml_object:
        size_t offs, size
        ggml_object *next
        int32_t type
    ctypedef struct ggml_tensor:
        int32_t type
        void *buffer
        int64_t ne[4]
        size_t nb[4]
        int32_t op
        int32_t[16] op_params
        int32_t flags
        ggml_tensor *src[10]
        ggml_tensor *view_src
        size_t view_offs
        void *data
        char name[64]
    ctypedef struct ggml_hash_set:
        size_t size
        uint32_t *used
        ggml_tensor **keys
    ctypedef struct ggml_cgraph:
        int32_t size, n_nodes, n_leafs
        ggml_tensor **nodes
        ggml_tensor **grads
        ggml_tensor **grad_accs
        ggml_tensor **leafs
        int32_t *use_counts
        ggml_hash_set visited_hash_set
        int32_t order
    ctypedef struct ggml_cplan:
        size_t work_size
        uint8_t *work_data
        int32_t n_threads
        void *threadpool
        void *abort_callback
        void *abort_callback_data
        unsigned char use_ref
    ctypedef struct gg_type_info:
        const char *name
        int32_t blck, bytes, quantized
    const gg_type_info gg_types[]
    bint gg_type_ok(int type)
    bint gg_is_float(int type)
    bint gg_mul(size_t a, size_t b, size_t *out)
    bint gg_add(size_t a, size_t b, size_t *out)
    size_t gg_row_size(int type, int64_t ne)
    int64_t gg_nelements(const ggml_tensor *t)
    int64_t gg_nrows(const ggml_tensor *t)
    bint gg_is_empty(const ggml_tensor *t)
    bint gg_extent(const ggml_tensor *t, size_t *out)
    size_t gg_nbytes(const ggml_tensor *t)
    bint gg_same_shape(const ggml_tensor *a, const ggml_tensor *b)
    bint gg_can_repeat(const ggml_tensor *b, const ggml_tensor *a)
    bint gg_contiguous_n(const ggml_tensor *t, int n)
    bint gg_contiguous(const ggml_tensor *t)
    float gg_bf16_to_f32(uint16_t h)
    uint16_t gg_f32_to_bf16(float f)
    float gg_f16_to_f32(uint16_t h)
    uint16_t gg_f32_to_f16(float f)

cdef extern from "runtime/mapped.h" nogil:
    ctypedef struct gg_mapped:
        pass

cdef extern from "runtime/memory.h" nogil:
    enum: GG_ARENA, GG_BUFFER, GG_STRUCT
    ctypedef struct gg_region:
        uint8_t *base
        size_t size
        ggml_context *ctx
        void *owner
        int64_t views
        cbool mapped
        gg_mapped *file
        size_t slack
        gg_region *prev
    ctypedef struct gg_pins:
        gg_region **v
        size_t n
    ctypedef struct ggml_context:
        size_t mem_size
        cbool no_alloc, grows
        ggml_object *first
        gg_region *chunk
        size_t closed
        void *keep
        uint8_t *scratch
        size_t scratch_size, scratch_used

cdef extern from "runtime/check.h" nogil:
    enum: GG_MESSAGE     # size of a buffer for the message of a check

cdef extern from "runtime/profile.h" nogil:
    ctypedef struct gg_span:
        pass
    ctypedef struct gg_lane:
        gg_span *spans
        int n
    ctypedef struct gg_profile:
        int n_lanes
        gg_lane *lanes
    ctypedef struct gg_node_facts:
        pass

cdef extern from "runtime/compute.h" nogil:
    ctypedef struct gg_call:
        ggml_tensor **nodes
        int n_nodes, n_threads
        cbool use_ref
        cbool (*abort)(void *) noexcept nogil
        void *abort_data
        cbool (*poll)() noexcept nogil
        cbool single
        gg_profile *profile
        int status, failed
        char message[256]
        void *exception

cdef extern from "runtime/prepare.h" nogil:
    ctypedef struct gg_prepared:
        pass

cdef extern from "runtime/kernel.h" nogil:
    ctypedef void (*gg_to_f32_fn)(const void *x, float *y, int64_t n) noexcept nogil
    ctypedef void (*gg_from_f32_fn)(const float *x, void *y, int64_t n) noexcept nogil
    ctypedef struct gg_kernels:
        gg_to_f32_fn to_f32[GG_TYPE_MAX]
        gg_from_f32_fn from_f32[GG_TYPE_MAX]
        int columns_alike

cdef extern from "runtime/op_info.h" nogil:
    enum: GG_FLAG_LEAF, GG_FLAG_VIEW, GG_FLAG_WORK, GG_FLAG_CALLBACK, GG_FLAG_STEP, GG_FLAG_GRAD, GG_FLAG_PLAN
    ctypedef struct gg_op_info:         # a row of tables/ops.h
        const char *name                # NULL: there is no such operation
        const char *symbol
        const char *family
        uint32_t overwrites, flags      # bit k: operand k; GG_FLAG_*

    enum: GG_DERIVATIVE_ZERO, GG_DERIVATIVE_NUMBER, GG_DERIVATIVE_RESULT, GG_DERIVATIVE_ARGUMENT
    ctypedef struct gg_unary_info:      # a row of tables/unary.h
        const char *name
        int32_t derivative, back        # GG_DERIVATIVE_*, GGML_OP_*

cdef extern from "runtime/api.h" nogil:
    # The functions of the engine: api.h lists them, and the headers that it names say what each does.
    ctypedef struct gg_engine:
        const char *(*check)(const ggml_tensor *node, char *message) noexcept nogil
        const gg_op_info *(*op)(int op) noexcept nogil
        const char *(*op_name)(int op) noexcept nogil
        const char *(*op_symbol)(int op) noexcept nogil
        const gg_unary_info *(*unary)(int function) noexcept nogil
        const char *(*unary_name)(int function) noexcept nogil
        bint (*op_computes)(int op) noexcept nogil
        size_t (*graph_nbytes)(size_t size, bint grads) noexcept nogil
        void (*graph_clear)(ggml_cgraph *graph) noexcept nogil
        size_t (*hash_find)(const ggml_hash_set *set, const ggml_tensor *key) noexcept nogil
        bint (*hash_used)(const ggml_hash_set *set, size_t slot) noexcept nogil
        bint (*hash_contains)(const ggml_hash_set *set, const ggml_tensor *key) noexcept nogil
        void *(*calloc)(size_t n, size_t size) noexcept nogil
        void *(*realloc)(void *block, size_t size) noexcept nogil
        bint (*readable)(const void *address, size_t size) noexcept nogil
        bint (*tensor_live)(const ggml_tensor *t) noexcept nogil
        bint (*tensor_usable)(const ggml_tensor *t) noexcept nogil
        bint (*data_ok)(const ggml_tensor *t) noexcept nogil
        uint64_t (*region_epoch)() noexcept nogil
        gg_region *(*region_of_data)(const void *address) noexcept nogil
        gg_region *(*region_hold)(const void *address) noexcept nogil
        void (*region_view)(gg_region *region, int delta) noexcept nogil
        int (*compute)(gg_call *call) noexcept nogil
        gg_call *(*current_call)() noexcept nogil
        void (*stop)(gg_call *call, int status) noexcept nogil
        int (*default_threads)() noexcept nogil
        int64_t (*clock_ns)() noexcept nogil
        gg_profile *(*profile_new)(int n_lanes, int n_nodes) noexcept nogil
        void (*node_describe)(gg_node_facts *facts, const ggml_tensor *node) noexcept nogil
        void (*parallel_for)(int n_threads, int64_t n, void (*body)(void *, int64_t) noexcept nogil,
                             void *data) noexcept nogil
        int (*until_callback)(ggml_tensor **nodes, int n) noexcept nogil
        size_t (*work_size)(ggml_tensor **nodes, int n, int n_threads) noexcept nogil
        const char *(*algorithm_of)(ggml_tensor *node) noexcept nogil
        int (*count_steps)(ggml_tensor **nodes, int n, int n_threads, bint kept) noexcept nogil
        gg_prepared *(*prepared_find)(const ggml_cgraph *graph) noexcept nogil
        gg_prepared *(*prepared_note)(const ggml_cgraph *graph, int n) noexcept nogil
        bint (*prepared_begin)(gg_prepared *p, gg_call *call, gg_pins *pins) noexcept nogil
        void (*prepared_end)(gg_prepared *p) noexcept nogil
        const gg_kernels *(*isa_active)() noexcept nogil
        const void *(*type_traits)(int type) noexcept nogil
        const void *(*type_traits_cpu)(int type) noexcept nogil
        size_t (*quantize_rows)(int type, const float *src, void *dst, int64_t nrows, int64_t n_per_row,
                                const float *imatrix, int64_t *beyond) noexcept nogil
        bint (*convert_row)(int type, const float *x, void *y, int64_t n) noexcept nogil
        bint (*requires_imatrix)(int type) noexcept nogil
        bint (*quantizer_ready)(int type) noexcept nogil
        bint (*validate_rows)(int type, const void *data, size_t nbytes) noexcept nogil
        void (*byteswap_rows)(int type, void *data, size_t nbytes) noexcept nogil

# Only this module is linked with the C objects. The others call the engine as engine.NAME(...).
cdef const gg_engine *engine

# ---- errors: messages begin with the name of the public function that runs -------------------------------------------
# Records the name of the public function that runs; arg_context does so for functions that take a context.
cdef int enter(const char *name) noexcept
# The recorded name, with which a function calls enter() again after it has run a callback.
cdef const char *entered() noexcept
# The recorded name as str.
cdef str function_name()
# Raises kind("NAME: message").
cdef object fail(type kind, str message)
# repr(value), cut to 60 characters.
cdef str repr_short(object value)
# A tensor in messages: "f32 [4, 3, 1, 1]"; its name; "'NAME' (f32 [4, 3, 1, 1])"; the same with ", MUL_MAT".
cdef str shape_text(const ggml_tensor *t)
cdef str name_text(const ggml_tensor *t)
cdef str tensor_text(const ggml_tensor *t)
cdef str node_text(const ggml_tensor *t)

# ---- sections: calls of several threads without a GIL (see _sections.h) ----------------------------------------------
# Around what the GIL is released for, and around callbacks: other threads may change everything meanwhile.
#     section = section_pause(); ...; section_back(section)
cdef int section_pause() noexcept nogil
# In functions that Python calls in another way than those of the modules; ended by section_back().
cdef int section_shared() noexcept nogil
# Before what other threads look up is changed; also ended by section_back().
cdef int section_alone() noexcept nogil
cdef void section_back(int before) noexcept nogil
cpdef bint has_gil() noexcept               # whether this build is for a Python with a GIL
# function(value), which may run code of a program: outside of the section, since such code may wait for other threads.
# If one of them was alone, what the call has looked up may be gone: it begins anew, in which `outside` returns what
# `function` has returned. A call must therefore convert its arguments before it changes anything.
cdef object outside(object (*function)(object), object value)
# (a, b) for `outside`: the same tuple if the call begins anew.
cdef tuple same_pair(object a, object b)
# Keeps an object until the call has left its section: letting go of it may run code of a program too.
cdef object let_go(object value)
# function(*args), which runs code of a program or waits for files. What the call looks up has to be looked up again.
cdef object paused(object function, tuple args)
# Computes a call without the GIL and outside of the section, and returns its status.
cdef int compute_outside(gg_call *call) noexcept
# Between the two C may run callbacks of ctypes: raise_deferred() then raises what they raised in this thread.
cdef int watch() except -1
cdef int unwatch() except -1

# ---- memory of the C library, which free() releases: both raise MemoryError ------------------------------------------
# n zeroed elements of `size` bytes; at least one byte.
cdef void *allocate(size_t n, size_t size) except NULL
# A block with room for n elements, with the content of `block`, which stays valid if there is no memory.
cdef void *resized(void *block, size_t n, size_t size) except NULL

# ---- arguments: each raises an exception that names the argument, `name` ---------------------------------------------
# A context; function: the name of the public function, as for enter().
cdef ggml_context *arg_context(object value, const char *function) except NULL
# A tensor; with _or_null, None and NULL pointers give NULL.
cdef ggml_tensor *arg_tensor(object value, const char *name) except NULL
cdef ggml_tensor *arg_tensor_or_null(object value, const char *name) except? NULL
# n tensors of a list, a tuple, or memory that holds n pointers, written to `out`.
cdef int arg_tensors(object value, int n, const char *name, ggml_tensor **out) except -1
# A graph.
cdef ggml_cgraph *arg_graph(object value, const char *name) except NULL
# Integers: 64 bits, 32 bits, and two that are not negative: a size in bytes and the size of a dimension.
cdef bint is_a(object value, object type) noexcept      # isinstance by the real type: no code of a program runs
cdef int64_t arg_int(object value, const char *name) except? -1
cdef int arg_int32(object value, const char *name) except? -1
cdef size_t arg_size(object value, const char *name) except? 0
cdef int64_t arg_extent(object value, const char *name) except -1
# A number, a truth value.
cdef float arg_float(object value, const char *name) except? -1
cdef bint arg_bool(object value, const char *name) except -1
# The number of a tensor type; arg_type_number also accepts types that earlier releases of the C library removed.
cdef int arg_type(object value, const char *name) except -1
cdef int arg_type_number(object value, const char *name) except -1
# Bytes from bytes or str; the name of a file, also from os.PathLike.
cdef bytes arg_text(object value, const char *name)
cdef bytes arg_path(object value, const char *name)
cdef bint is_path(object value) except -1       # str or os.PathLike
# The text of a printf format and its arguments.
cdef bytes arg_format(object fmt, tuple args)
# Anything that c_void_p accepts; None gives NULL.
cdef void *arg_address(object value, const char *name) except? NULL
# The same, written to `out`, with at least `need` bytes. A size that is not known is not checked, only whether memory
# is mapped there.
cdef int arg_buffer(object value, const char *name, size_t need, void **out) except -1
# A struct of a ctypes type: the argument itself, what it points to, or that of byref; None for other objects.
cdef object pointed(object value, object struct)
# What `outside` calls for numbers, truth values, tuples of sequences.
cdef object int_of(object value)
cdef object float_of(object value)
cdef object truth_of(object value)
cdef object tuple_of(object value)
# The address of a C function: from an instance of callback_type or an address; None gives NULL.
cdef void *arg_callback(object value, object callback_type, const char *name) except? NULL

# ---- results ---------------------------------------------------------------------------------------------------------
# ctypes pointers, also to NULL; a handle as int, None for NULL.
cdef object wrap_tensor(ggml_tensor *t)
cdef object wrap_graph(ggml_cgraph *g)
cdef object wrap_handle(void *handle)

# ---- contexts and regions of memory ----------------------------------------------------------------------------------
# A context for internal use: it grows, and its tensors get no data.
cdef ggml_context *context_new() except NULL
cdef int context_free(ggml_context *ctx) except -1
# The context whose arena contains an address, or NULL.
cdef ggml_context *context_of(const void *address) noexcept
# Keeps a Python object alive as long as the context.
cdef object keep(ggml_context *ctx, object value)
# Memory in the arena.
cdef void *work_buffer(ggml_context *ctx, size_t size) except NULL
# The region that contains an address, or NULL. Also NULL where `size` bytes reach beyond an arena at an address of the
# caller whose context was freed: another block, of unknown size, may lie there by now.
cdef gg_region *region_holding(const void *address, size_t size) noexcept
# Registers memory of the caller, and ends the registration.
cdef object region_add(int kind, gg_region *region)
cdef int region_leave(int kind, gg_region *region) except -1
# A registered BUFFER region of zeroed pages, or of the pages of a file, which are copied on write; NULL: no memory.
cdef gg_region *buffer_region(size_t size) noexcept
cdef gg_region *file_region(int fd, size_t size) noexcept
# See gg_pages_enlarge; `data` lies in the region.
cdef size_t enlarge_pages(gg_region *region, uint8_t *data, size_t size) noexcept nogil
# Frees such a region. Its pages are unmapped once the last view is released.
cdef void buffer_retire(gg_region *region) noexcept
# The Python object that owns the memory of a region, or None.
cdef object region_owner(gg_region *region)
# Keeps the memory that nodes use mapped until release(), and appends the Python objects that own it to `kept`.
cdef int pins_hold(gg_pins *pins, list kept, ggml_tensor **nodes, int n) except -1
# The second part of hold(): appends the owners of the regions pins.v[first] and later.
cdef int hold_owners(gg_pins *pins, size_t first, list kept) except -1
# Raises RuntimeError if a file that regions were mapped from was written to or shortened since.
cdef int check_files(gg_pins *pins) except -1
cdef int check_file(gg_region *region) except -1
cdef void pins_release(gg_pins *pins) noexcept
# Raises unless a tensor's fields are valid and its data lies in live memory; role: what messages call the tensor.
cdef int check_data(ggml_tensor *t, str role) except -1

# ---- nodes -----------------------------------------------------------------------------------------------------------
# A node is initialised in a local variable, completed by its builder, and copied into the context by node_append.
cdef void node_init(ggml_tensor *node, int op, int type, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) noexcept
# The same, with the shape of a.
cdef void node_like(ggml_tensor *node, int op, int type, const ggml_tensor *a) noexcept
# Makes a node a view of a, `offset` bytes from the start of a; the builder sets its strides.
cdef void node_view(ggml_tensor *node, ggml_tensor *a, size_t offset) noexcept
# Makes a node a view of all of a, with the strides of a: its result lies in the memory of a.
cdef void node_in_place(ggml_tensor *node, ggml_tensor *a) noexcept
# Raises ValueError if a node fails the check of its operation.
cdef int check_node(const ggml_tensor *node) except -1
# Checks a node and copies it into the context, with contiguous strides unless it is a view.
cdef ggml_tensor *node_append(ggml_context *ctx, ggml_tensor *node) except NULL
# New nodes with one or two sources and the type and shape of a; in_place: with the result in the memory of a.
cdef ggml_tensor *node1(ggml_context *ctx, int op, ggml_tensor *a) except NULL
cdef ggml_tensor *node2(ggml_context *ctx, int op, ggml_tensor *a, ggml_tensor *b) except NULL
cdef ggml_tensor *node1_in_place(ggml_context *ctx, int op, ggml_tensor *a) except NULL
cdef ggml_tensor *node2_in_place(ggml_context *ctx, int op, ggml_tensor *a, ggml_tensor *b) except NULL
# A new tensor that no operation computes.
cdef ggml_tensor *new_tensor(ggml_context *ctx, int type, int n_dims, const int64_t *ne) except NULL
# Names a tensor prefix + suffix, cut to GGML_MAX_NAME - 1 bytes.
cdef void set_name(ggml_tensor *t, const char *prefix, const char *suffix) noexcept

# ---- graphs ----------------------------------------------------------------------------------------------------------
cdef ggml_cgraph *graph_new(ggml_context *ctx, size_t size, bint grads) except NULL
# Adds t and everything that it depends on, sources first; compute: marks the tensors as to be computed.
cdef int graph_expand(ggml_cgraph *graph, ggml_tensor *t, bint compute) except -1
