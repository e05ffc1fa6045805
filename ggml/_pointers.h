/* The memory of ctypes objects, and pointers that are used again. */
#ifndef GG_POINTERS_H
#define GG_POINTERS_H
#include "_sections.h"

/* The first fields of every ctypes object: the address and size of its memory, the objects that it keeps alive. The
 * layout is checked at import; if another Python has another one, ctypes' public functions are used. */
typedef struct {
    PyObject_HEAD char *b_ptr;
    int b_needsfree;
    void *b_base;
    Py_ssize_t b_size, b_length, b_index;
    PyObject *b_objects;
} gg_cdata;

/* Python hands objects from thread to thread in a way that ThreadSanitizer does not see: who reads the memory of one
 * comes after the function that wrote it. */
static inline void *gg_cdata_memory(PyObject *o) {
    GG_TSAN(__tsan_acquire(o));
    return ((gg_cdata *)o)->b_ptr;
}
static inline void gg_pointer_set(PyObject *o, void *memory, void *target) {
    *(void **)memory = target;
    GG_TSAN(__tsan_release(o));
    (void)o;
}

/* A free list: every call creates and frees tensor pointers, so up to GG_SPARES freed ones are kept for reuse, as
 * CPython does with floats. Without a GIL each thread has a list. It relies on details of CPython, so it exists in the
 * versions where it was tried. */
#if PY_VERSION_HEX >= 0x030A0000 && PY_VERSION_HEX < 0x030E0000 && !defined PYPY_VERSION
#ifdef Py_GIL_DISABLED
static inline gg_spares *gg_spares_here(void) { return gg_me ? &gg_me->spares : NULL; }
#else
static gg_spares gg_spares_of_all;
static inline gg_spares *gg_spares_here(void) { return &gg_spares_of_all; }
#endif
static struct { PyTypeObject *type, *base; } gg_recycled;

static void gg_pointer_free(PyObject *o) {
    PyTypeObject *const type = Py_TYPE(o), *const base = gg_recycled.base;
    base->tp_dealloc(o);                    /* that of a heap type also releases the type itself */
    if (!(base->tp_flags & Py_TPFLAGS_HEAPTYPE)) Py_DECREF(type);
}
static void gg_pointer_dealloc(PyObject *o) {
    PyTypeObject *const type = Py_TYPE(o);
    gg_cdata *const c = (gg_cdata *)o;
    gg_spares *const spares = gg_spares_here();
    const size_t offset = (size_t)(c->b_ptr - (char *)o);   /* small: its own memory, not a field of a struct */
    if (type == gg_recycled.type && spares && spares->n < GG_SPARES && !c->b_objects && !c->b_base
        && offset < (size_t)type->tp_basicsize) {
        PyObject_GC_UnTrack(o);
        spares->v[spares->n++] = o;
        return;
    }
    gg_pointer_free(o);
}
#ifdef Py_GIL_DISABLED
static void gg_pointers_free(gg_spares *spares) {
    while (spares->n) {
        PyObject *const o = spares->v[--spares->n];
        _Py_NewReference(o);
        gg_pointer_free(o);
    }
}
#endif
static void gg_spare_init(PyTypeObject *type) {
    gg_recycled.type = type;
    gg_recycled.base = type->tp_base;
    while (gg_recycled.base->tp_dealloc == type->tp_dealloc) gg_recycled.base = gg_recycled.base->tp_base;
    type->tp_dealloc = gg_pointer_dealloc;
#ifdef Py_GIL_DISABLED
    gg_spares_drop = gg_pointers_free;
#endif
}
static PyObject *gg_spare_take(void) {      /* NULL: the list is empty */
    gg_spares *const spares = gg_spares_here();
    if (!spares || !spares->n) return NULL;
    PyObject *const o = spares->v[--spares->n];
    _Py_NewReference(o);
    return o;
}
#else
static void gg_spare_init(PyTypeObject *type) { (void)type; }
static PyObject *gg_spare_take(void) { return NULL; }
#endif
#endif
