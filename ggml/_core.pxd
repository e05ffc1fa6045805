# What every other module cimports: structs, pointers in and out, arguments, tensors into arenas.
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "<stdbool.h>":
    ctypedef bint cbool "bool"

cdef extern from "runtime/engine.h" nogil:
    enum: GGML_TYPE_COUNT, GGML_OP_COUNT, GG_OP_MAX, GGML_MAX_SRC, GGML_MAX_NAME, GGML_DEFAULT_GRAPH_SIZE, GGML_N_TASKS_MAX
    enum: GGML_TENSOR_FLAG_INPUT, GGML_TENSOR_FLAG_OUTPUT, GGML_TENSOR_FLAG_PARAM, GGML_TENSOR_FLAG_LOSS, GGML_TENSOR_FLAG_COMPUTE
    enum: GGML_STATUS_SUCCESS, GGML_STATUS_FAILED, GGML_STATUS_ABORTED, GGML_STATUS_ALLOC_FAILED
    enum: GGML_OBJECT_TYPE_TENSOR, GGML_OBJECT_TYPE_GRAPH, GGML_OBJECT_TYPE_WORK_BUFFER
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
        int32_t op_params[16]
        int32_t flags
        ggml_tensor *src[10]
        ggml_tensor *view_src
        size_t view_offs
        void *data
        char name[64]
        void *extra
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
        uint64_t uid
    ctypedef struct ggml_cplan:
        size_t work_size
        uint8_t *work_data
        int32_t n_threads
        void *threadpool
        void *abort_callback
        void *abort_callback_data
        cbool use_ref
    ctypedef struct gg_type_info:
        const char *name
        int32_t blck, bytes, quantized
    const gg_type_info gg_types[]
    bint gg_type_ok(int type)
    bint gg_is_float(int type)
    bint gg_is_int(int type)
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
    float gg_param_f32(const ggml_tensor *t, int i)
    void gg_set_param_f32(ggml_tensor *t, int i, float f)
    float gg_bf16_to_f32(uint16_t h)
    uint16_t gg_f32_to_bf16(float f)
    float gg_f16_to_f32(uint16_t h)
    uint16_t gg_f32_to_f16(float f)

cdef extern from "runtime/memory.h" nogil:
    enum: GG_ARENA, GG_BUFFER, GG_STRUCT
    ctypedef struct gg_region:
        uint8_t *base
        size_t size
        ggml_context *ctx
        void *owner
        int64_t views
        cbool mapped, file, freed
        gg_region *prev
    ctypedef struct gg_pins:
        gg_region **v
        size_t n
    ctypedef struct ggml_context:
        size_t mem_size
        cbool no_alloc, grows
        int64_t n_objects
        ggml_object *first
        ggml_object *last
        gg_region *chunk
        size_t closed
        void *keep
        void *legacy
        uint8_t *scratch
        size_t scratch_size, scratch_used

cdef extern from "runtime/compute.h" nogil:
    ctypedef struct gg_call:
        ggml_tensor **nodes
        int n_nodes, n_threads
        uint8_t *wdata
        size_t wsize
        cbool use_ref
        cbool (*abort)(void *) noexcept nogil
        void *abort_data
        cbool (*poll)() noexcept nogil
        int status, failed
        char message[256]
        void *exception

cdef extern from "runtime/kernel.h" nogil:
    ctypedef void (*gg_to_f32_fn)(const void *x, float *y, int64_t n) noexcept nogil
    ctypedef void (*gg_from_f32_fn)(const float *x, void *y, int64_t n) noexcept nogil
    ctypedef void (*gg_dot_fn)(int64_t n, float *s, const void *x, const void *y) noexcept nogil
    ctypedef struct gg_kernels:
        gg_to_f32_fn to_f32[GGML_TYPE_COUNT]
        gg_from_f32_fn from_f32[GGML_TYPE_COUNT]
        gg_dot_fn dot[GGML_TYPE_COUNT]

cdef extern from "runtime/api.h" nogil:
    # The engine's C functions (see the headers named in api.h for what each does).
    ctypedef struct gg_engine:
        const char *(*check)(const ggml_tensor *node, char *message) noexcept nogil
        const char *(*op_name)(int op) noexcept nogil
        const char *(*op_symbol)(int op) noexcept nogil
        const char *(*unary_name)(int function) noexcept nogil
        bint (*op_computes)(int op) noexcept nogil
        size_t (*graph_nbytes)(size_t size, bint grads) noexcept nogil
        void (*graph_clear)(ggml_cgraph *graph) noexcept nogil
        size_t (*hash_find)(const ggml_hash_set *set, const ggml_tensor *key) noexcept nogil
        bint (*hash_used)(const ggml_hash_set *set, size_t slot) noexcept nogil
        bint (*hash_contains)(const ggml_hash_set *set, const ggml_tensor *key) noexcept nogil
        bint (*readable)(const void *address, size_t size) noexcept nogil
        bint (*tensor_live)(const ggml_tensor *t) noexcept nogil
        bint (*tensor_usable)(const ggml_tensor *t) noexcept nogil
        bint (*data_ok)(const ggml_tensor *t) noexcept nogil
        gg_region *(*region_of_data)(const void *address) noexcept nogil
        void (*region_view)(gg_region *region, int delta) noexcept nogil
        int (*compute)(gg_call *call) noexcept nogil
        int (*until_callback)(ggml_tensor **nodes, int n) noexcept nogil
        size_t (*work_size)(ggml_tensor **nodes, int n, int n_threads) noexcept nogil
        gg_call *(*current_call)() noexcept nogil
        void (*stop)(gg_call *call, int status) noexcept nogil
        int (*default_threads)() noexcept nogil
        void (*parallel_for)(int n_threads, int64_t n, void (*body)(void *, int64_t) noexcept nogil, void *data) noexcept nogil
        const gg_kernels *(*isa_active)() noexcept nogil
        const void *(*type_traits)(int type) noexcept nogil
        const void *(*type_traits_cpu)(int type) noexcept nogil
        size_t (*quantize_rows)(int type, const float *src, void *dst, int64_t nrows, int64_t n_per_row,
                                const float *imatrix) noexcept nogil
        bint (*requires_imatrix)(int type) noexcept nogil
        bint (*validate_rows)(int type, const void *data, size_t nbytes) noexcept nogil
        void (*byteswap_rows)(int type, void *data, size_t nbytes) noexcept nogil

cdef const gg_engine *engine

# ---- errors: messages begin with the name of the public function that runs ------------------------------------------
cdef int enter(const char *fn) noexcept                    # names it; C() does it for functions of a context
cdef const char *entered() noexcept                        # what to call enter() with again when a callback is back
cdef str where()                                           # its name
cdef object fail(type kind, str message)                   # raises kind("<name>: <message>")
cdef str repr_short(object o)                              # repr, cut to 60 characters
cdef str shape_text(const ggml_tensor *t)                  # "f32 [4, 3, 1, 1]"
cdef str name_text(const ggml_tensor *t)                   # the name as str
cdef str tensor_text(const ggml_tensor *t)                 # "'name' (f32 [4, 3, 1, 1])"
cdef str node_text(const ggml_tensor *t)                   # "'name' (f32 [4, 3, 1, 1], MUL_MAT)"

# ---- arguments -------------------------------------------------------------------------------------------------------
cdef ggml_context *arg_context(object ctx, const char *fn) except NULL
cdef ggml_tensor *arg_tensor(object tensor, const char *name) except NULL
cdef ggml_tensor *arg_tensor_or_null(object tensor, const char *name) except? NULL      # None and NULL give NULL
cdef ggml_cgraph *arg_graph(object graph, const char *name) except NULL
cdef int64_t arg_int(object value, const char *name) except? -1               # any int64
cdef int arg_int32(object value, const char *name) except? -1
cdef bytes arg_path(object o, const char *name)                 # the name of a file: bytes, str or os.PathLike
cdef size_t arg_size(object value, const char *name) except? 0
cdef int64_t arg_extent(object value, const char *name) except -1               # elements of a dimension: 0 or more
cdef float arg_float(object value, const char *name) except? -1
cdef bint arg_bool(object value, const char *name) except -1
cdef int arg_type(object value, const char *name) except -1                 # a known tensor type
cdef int arg_type_number(object value, const char *name) except -1          # or one that was removed
cdef bytes arg_text(object value, const char *name)                         # bytes or str
cdef void *arg_address(object value, const char *name) except? NULL            # anything c_void_p takes; None gives NULL
cdef void *arg_callback(object value, object callback_type, const char *name) except? NULL   # a callback, callable or address
cdef int arg_buffer(object value, const char *name, size_t need, void **out) except -1    # ADDR, with need bytes checked where known

# ---- results ---------------------------------------------------------------------------------------------------------
cdef object wrap_tensor(ggml_tensor *t)                              # a tensor pointer; a NULL pointer object for NULL
cdef object wrap_graph(ggml_cgraph *g)                             # likewise for a graph
cdef object wrap_handle(void *p)                                     # a handle: int, or None for NULL

# ---- tensors into arenas ---------------------------------------------------------------------------------------------
cdef void node_init(ggml_tensor *d, int op, int type, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) noexcept
cdef void node_like(ggml_tensor *d, int op, int type, const ggml_tensor *a) noexcept       # a's shape
cdef void node_view(ggml_tensor *d, ggml_tensor *a, size_t offset) noexcept             # memory of a; strides are d's own
cdef ggml_tensor *node_append(ggml_context *ctx, ggml_tensor *d) except NULL                  # checks the draft, enters it
cdef ggml_tensor *new_tensor(ggml_context *ctx, int type, int n_dims, const int64_t *ne) except NULL
cdef void set_name(ggml_tensor *t, const char *a, const char *suffix) noexcept        # "a" + "suffix", cut to fit
cdef object keep(ggml_context *ctx, object value)          # keeps a Python object alive as long as the context
cdef void *work_buffer(ggml_context *ctx, size_t size) except NULL       # memory in the arena
cdef ggml_context *context_new() except NULL               # for use within: it grows, and its tensors have no memory
cdef int context_free(ggml_context *ctx) except -1
cdef ggml_context *context_of(const void *p) noexcept      # of the arena that holds p, or NULL
cdef gg_region *region_holding(const void *p, size_t n) noexcept   # that, unless it says nothing about n bytes from p on
cdef object region_add(int kind, gg_region *r)
cdef int region_leave(int kind, gg_region *r) except -1     # memory of a caller's that is not used any more
cdef gg_region *buffer_region(size_t size) noexcept         # pages of our own (zeroed), entered as a BUFFER; NULL: no memory
cdef gg_region *file_region(int fd, size_t size) noexcept   # likewise, pages that show a file, copied where they are written to
cdef void buffer_retire(gg_region *r) noexcept              # frees these: they go when the last view has gone
cdef object region_owner(gg_region *r)                      # whose memory it is, if a caller's; None: not known
cdef int hold(gg_pins *pins, list kept, ggml_tensor **nodes, int n) except -1    # the memory of nodes, and who keeps that
cdef void release(gg_pins *pins) noexcept
cdef int check_data(ggml_tensor *t, str role) except -1    # its elements lie in memory that may be read (and written)

# ---- graphs ------------------------------------------------------------------------------------------------------------
cdef ggml_cgraph *graph_new(ggml_context *ctx, size_t size, bint grads) except NULL
cdef int graph_expand(ggml_cgraph *g, ggml_tensor *t, bint compute) except -1

# ---- nodes: what most builders are made of ---------------------------------------------------------------------------
cdef ggml_tensor *node1(ggml_context *ctx, int op, ggml_tensor *a) except NULL                       # a's type and shape
cdef ggml_tensor *node2(ggml_context *ctx, int op, ggml_tensor *a, ggml_tensor *b) except NULL
cdef ggml_tensor *node1_in_place(ggml_context *ctx, int op, ggml_tensor *a) except NULL                    # result in a's memory
cdef ggml_tensor *node2_in_place(ggml_context *ctx, int op, ggml_tensor *a, ggml_tensor *b) except NULL
cdef void node_in_place(ggml_tensor *d, ggml_tensor *a) noexcept                                              # makes a draft a view of all of a
# The tensors of an array that a caller gives: a list, a tuple, or memory with n pointers.
cdef int arg_tensors(object array, int n, const char *name, ggml_tensor **out) except -1
