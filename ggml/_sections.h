/* Calls of several threads in a Python without a GIL.
 *
 * Code of this package was written for a GIL: what a call looks up stays as it is until the call ends or lets other
 * threads run. Without a GIL, sections keep that promise. A call is in a section that it shares, in which it may read
 * what all threads have in common (registries, handles) and change what belongs to its own contexts, or is alone: then
 * no other thread is in a section. Functions that build, read and compute share; all others are alone. A thread leaves
 * its section where it would let go of the GIL: while a graph is computed, a file is read, code of a program runs. Such
 * code (a callback, __index__ of an argument) may wait for other threads, which wait for sections to end.
 *
 * With a GIL there are no sections: everything here is empty. */
#ifndef GG_SECTIONS_H
#define GG_SECTIONS_H
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

enum { GG_OUTSIDE, GG_SHARED, GG_ALONE };
enum { GG_SPARES = 256 };
typedef struct { PyObject *v[GG_SPARES]; int n; } gg_spares;    /* pointers to use again (see _pointers.h) */
static PyObject *gg_anew;           /* the exception with which a call begins anew (see `outside` in _core.pyx) */

#if defined Py_GIL_DISABLED && defined __SANITIZE_THREAD__
void __tsan_acquire(void *), __tsan_release(void *);
#define GG_TSAN(call) call
#else
#define GG_TSAN(call) ((void)0)
#endif

#ifndef Py_GIL_DISABLED
/* Both return the section that the thread was in: gg_section_leave(gg_section_enter(...)) goes back to it. */
static inline int gg_section_enter(int section) { return section; }
static inline int gg_section_pause(void) { return GG_OUTSIDE; }
static inline int gg_section_here(void) { return GG_OUTSIDE; }
static inline uint64_t gg_section_changes(void) { return 0; }
static inline uint64_t gg_section_changed(void) { return 0; }
static inline bool gg_section_passed(uint64_t time) { return time > 0; }
static inline PyObject *gg_section_keep(PyObject *dict) { return dict; }
static inline PyObject *gg_section_kept(void) { return NULL; }
static inline bool gg_section_anew(bool may) { return may; }
static inline void gg_section_back(int before) { (void)before; }
static inline const char *gg_section_guard(PyObject *function, int section) {
    (void)function, (void)section;
    return NULL;
}
static inline int gg_sections_begin(void) { return 0; }
static inline void gg_hook_take(void) {}
static inline void gg_hook_open(void) {}
static inline void gg_uncounted(PyObject *o) { (void)o; }
#else
#include <stdatomic.h>
#include <stdlib.h>
#ifdef _WIN32
#include <windows.h>
#else
#include <pthread.h>
#include <sched.h>
#endif

/* ThreadSanitizer does not see what Python does within its mutex. */
static inline void gg_mutex_take(PyMutex *mutex) {
    PyMutex_Lock(mutex);
    GG_TSAN(__tsan_acquire(mutex));
}
static inline void gg_mutex_open(PyMutex *mutex) {
    GG_TSAN(__tsan_release(mutex));
    PyMutex_Unlock(mutex);
}

/* A thread that calls functions of this package. Those of threads that have ended are used again, never freed. */
typedef struct gg_caller {
    _Alignas(64) atomic_int sharing;        /* whether it is in a section that it shares */
    atomic_ullong since;                    /* gg_changes when it entered that */
    int section;                            /* in which it is: for this thread alone, like what follows */
    bool may_begin_anew;                    /* the call that runs: it is one of gg_call_in */
    PyObject *kept;                         /* dict of what the call lets go of outside of its section, or NULL */
    atomic_int taken;
    struct gg_caller *next;
    gg_spares spares;                       /* for this thread alone */
} gg_caller;
static void (*gg_spares_drop)(gg_spares *);    /* see _pointers.h */
static _Atomic(gg_caller *) gg_callers;
static atomic_int gg_one_is_alone;
static PyMutex gg_turn;                     /* held by the thread that is alone: others sleep in it */
static atomic_ullong gg_changes;            /* how often threads were alone, or freed something without that */
static PyMutex gg_hook;                     /* of sys.unraisablehook and of exceptions of computes (see _core.pyx) */
static inline void gg_hook_take(void) { gg_mutex_take(&gg_hook); }
static inline void gg_hook_open(void) { gg_mutex_open(&gg_hook); }
#ifdef __GLIBC__
__attribute__((tls_model("initial-exec")))
#endif
static _Thread_local gg_caller *gg_me;

#ifdef _WIN32
static DWORD gg_caller_key;
static void WINAPI gg_caller_left(void *caller) {
    if (caller) atomic_store(&((gg_caller *)caller)->taken, 0);
}
static int gg_sections_begin(void) { return (gg_caller_key = FlsAlloc(gg_caller_left)) == FLS_OUT_OF_INDEXES; }
static int gg_caller_keep(gg_caller *caller) { return !FlsSetValue(gg_caller_key, caller); }
static void gg_let_others_run(void) { SwitchToThread(); }
#else
static pthread_key_t gg_caller_key;
static void gg_caller_left(void *caller) { atomic_store(&((gg_caller *)caller)->taken, 0); }
/* In the child the other threads are gone, and with them what they held. */
static void gg_sections_after_fork(void) {
    gg_turn = gg_hook = (PyMutex){0};
    atomic_store(&gg_one_is_alone, 0);
    for (gg_caller *c = atomic_load(&gg_callers); c; c = c->next)
        if (c != gg_me) atomic_store(&c->sharing, 0), atomic_store(&c->taken, 0), c->spares.n = 0, c->kept = NULL;
}
static int gg_sections_begin(void) {
    return pthread_key_create(&gg_caller_key, gg_caller_left) || pthread_atfork(NULL, NULL, gg_sections_after_fork);
}
static int gg_caller_keep(gg_caller *caller) { return pthread_setspecific(gg_caller_key, caller); }
static void gg_let_others_run(void) { sched_yield(); }
#endif

static gg_caller *gg_caller_new(void) {
    gg_caller *c = atomic_load(&gg_callers);
    for (int unused = 0; c; c = c->next, unused = 0)
        if (atomic_compare_exchange_strong(&c->taken, &unused, 1)) break;
    if (!c) {
        if (!(c = aligned_alloc(64, sizeof *c))) Py_FatalError("ggml: no memory for 64 bytes");
        *c = (gg_caller){.taken = 1, .next = atomic_load(&gg_callers)};
        while (!atomic_compare_exchange_weak(&gg_callers, &c->next, c)) continue;
    }
    /* Pointers of a thread that has ended lie among objects of others, which would wait for the same cache lines. */
    if (c->spares.n && PyThreadState_GetUnchecked()) gg_spares_drop(&c->spares);
    c->section = GG_OUTSIDE;
    gg_caller_keep(c);
    return gg_me = c;
}
/* Whether a word that another thread has set for a few microseconds becomes 0. */
static bool gg_soon(const atomic_int *word) {
    for (int i = 0; i < 4000; i++) {
        if (!atomic_load_explicit(word, memory_order_acquire)) return true;
#if defined __x86_64__ || defined __i386__
        if (i > 100) __builtin_ia32_pause();
#endif
    }
    return false;
}
/* Waits until a thread is out of its section, detached from the interpreter, which may want all threads to stop. */
static void gg_wait_for(const gg_caller *c) {
    if (gg_soon(&c->sharing)) return;
    PyThreadState *const state = PyThreadState_GetUnchecked() ? PyEval_SaveThread() : NULL;
    while (atomic_load_explicit(&c->sharing, memory_order_acquire)) gg_let_others_run();
    if (state) PyEval_RestoreThread(state);
}
/* Waits until no thread is alone. The mutex puts this thread to sleep, which takes longer than most that are alone. The
 * thread that will be alone may not have it yet: where Python has stopped that one, to stop all, this one must not run
 * on without letting Python stop it too. */
static void gg_wait_for_turn(void) {
    if (gg_soon(&gg_one_is_alone)) return;
    gg_mutex_take(&gg_turn);
    gg_mutex_open(&gg_turn);
    if (!atomic_load(&gg_one_is_alone)) return;
    PyThreadState *const state = PyThreadState_GetUnchecked() ? PyEval_SaveThread() : NULL;
    gg_let_others_run();
    if (state) PyEval_RestoreThread(state);
}
/* While Python ends, one thread runs. Others have stopped wherever they were, also where they were alone. */
static void gg_section_change(gg_caller *me, int section) {
    if (me->section == GG_SHARED) atomic_store_explicit(&me->sharing, 0, memory_order_release);
    if (me->section == GG_ALONE && !Py_IsFinalizing()) {
        gg_mutex_open(&gg_turn);
        atomic_store(&gg_one_is_alone, 0);
    }
    me->section = section;
    if (section == GG_SHARED) {
        while (true) {
            const unsigned long long changes = atomic_load_explicit(&gg_changes, memory_order_acquire);
            atomic_store_explicit(&me->since, changes, memory_order_relaxed);
            atomic_store(&me->sharing, 1);
            if (!atomic_load(&gg_one_is_alone) || Py_IsFinalizing()) return;
            atomic_store(&me->sharing, 0);
            gg_wait_for_turn();
        }
    } else if (section == GG_ALONE && !Py_IsFinalizing()) {
        for (int no = 0; !atomic_compare_exchange_strong(&gg_one_is_alone, &no, 1) && !Py_IsFinalizing(); no = 0)
            gg_wait_for_turn();
        gg_mutex_take(&gg_turn);
        for (const gg_caller *c = atomic_load(&gg_callers); c; c = c->next) gg_wait_for(c);
        atomic_fetch_add(&gg_changes, 1);
    }
}
static inline gg_caller *gg_caller_here(void) { return gg_me ? gg_me : gg_caller_new(); }
/* Enters a section unless the thread is in one that gives as much. A thread that shares lets go before it is alone:
 * what it looked up before has to be looked up again. Returns what gg_section_back needs. */
static inline int gg_section_enter(int section) {
    gg_caller *const me = gg_caller_here();
    const int before = me->section;
    if (section > before) gg_section_change(me, section);
    return before;
}
static inline int gg_section_pause(void) {
    gg_caller *const me = gg_caller_here();
    const int before = me->section;
    if (before != GG_OUTSIDE) gg_section_change(me, GG_OUTSIDE);
    return before;
}
static inline void gg_section_back(int before) {
    if (gg_me->section != before) gg_section_change(gg_me, before);
}
static inline int gg_section_here(void) { return gg_caller_here()->section; }
/* A thread has looked up what is there as long as this stays the same. */
static inline uint64_t gg_section_changes(void) { return atomic_load(&gg_changes); }
/* Something was taken out of the registries while others shared the section. Returns the time: who has entered later
 * does not find it. */
static uint64_t gg_section_changed(void) { return atomic_fetch_add(&gg_changes, 1); }
/* Whether all other threads that are in a section have entered after that time. */
static bool gg_section_passed(uint64_t time) {
    for (gg_caller *c = atomic_load(&gg_callers); c; c = c->next)
        if (c != gg_me && atomic_load(&c->sharing) && atomic_load(&c->since) <= time) return false;
    return true;
}
/* Sets what the call that runs lets go of, and returns what was set before. */
static inline PyObject *gg_section_keep(PyObject *dict) {
    PyObject *const before = gg_caller_here()->kept;
    gg_me->kept = dict;
    return before;
}
static inline PyObject *gg_section_kept(void) { return gg_caller_here()->kept; }
/* Says whether the call that runs may begin anew, and returns what was said before. */
static inline bool gg_section_anew(bool may) {
    const bool before = gg_caller_here()->may_begin_anew;
    gg_me->may_begin_anew = may;
    return before;
}

/* ---- functions that are in a section while they run -------------------------------------------------------------- */
/* Cython has one C function for each form of arguments, which calls all functions of that form. Its address in the
 * object of a function is replaced by one of those below, which look it up by the form. */
enum { GG_FORMS = METH_VARARGS | METH_NOARGS | METH_O | METH_FASTCALL | METH_KEYWORDS | METH_METHOD };
static vectorcallfunc gg_by_form[GG_FORMS + 1];
static inline vectorcallfunc *gg_form_of(PyObject *function) {
    return &gg_by_form[((PyCFunctionObject *)function)->m_ml->ml_flags & GG_FORMS];
}
static PyObject *gg_call_within(gg_caller *me, int section, PyObject *f, PyObject *const *arguments, size_t n,
                                PyObject *names) {
    const int before = gg_section_enter(section);
    PyObject *const result = (*gg_form_of(f))(f, arguments, n, names);
    if (me->section != before) gg_section_change(me, before);
    return result;
}
static PyObject *gg_call_in(int section, PyObject *f, PyObject *const *arguments, size_t n, PyObject *names) {
    gg_caller *const me = gg_caller_here();
    if (me->section != GG_OUTSIDE) return gg_call_within(me, section, f, arguments, n, names);
    PyObject *const kept = me->kept, *result;           /* of a call of this thread that runs code of a program */
    const bool may = me->may_begin_anew;
    me->kept = NULL, me->may_begin_anew = true;
    gg_section_change(me, section);
    while (!(result = (*gg_form_of(f))(f, arguments, n, names)) && PyErr_ExceptionMatches(gg_anew)) PyErr_Clear();
    gg_section_change(me, GG_OUTSIDE);
    Py_XDECREF(me->kept);
    me->kept = kept, me->may_begin_anew = may;
    return result;
}
static PyObject *gg_call_shared(PyObject *f, PyObject *const *arguments, size_t n, PyObject *names) {
    return gg_call_in(GG_SHARED, f, arguments, n, names);
}
static PyObject *gg_call_alone(PyObject *f, PyObject *const *arguments, size_t n, PyObject *names) {
    return gg_call_in(GG_ALONE, f, arguments, n, names);
}
/* A function that takes a tuple and a dictionary has no address of this kind: it gets this one. */
static PyObject *gg_call_with_tuple(PyObject *f, PyObject *const *arguments, size_t n, PyObject *names) {
    PyObject *(*const method)(PyObject *, PyObject *, PyObject *) =
        (PyObject *(*)(PyObject *, PyObject *, PyObject *))(void (*)(void))((PyCFunctionObject *)f)->m_ml->ml_meth;
    const Py_ssize_t n_tuple = PyVectorcall_NARGS(n), n_names = names ? PyTuple_GET_SIZE(names) : 0;
    PyObject *const tuple = PyTuple_New(n_tuple), *const named = n_names ? PyDict_New() : NULL, *result = NULL;
    bool complete = tuple && (named || !n_names);
    for (Py_ssize_t i = 0; complete && i < n_tuple; i++) PyTuple_SET_ITEM(tuple, i, Py_NewRef(arguments[i]));
    for (Py_ssize_t i = 0; complete && i < n_names; i++)
        complete = !PyDict_SetItem(named, PyTuple_GET_ITEM(names, i), arguments[n_tuple + i]);
    if (complete) result = method(f, tuple, named);
    Py_XDECREF(tuple);
    Py_XDECREF(named);
    return result;
}
/* Lets a function of Cython run in a section from now on. Returns NULL, or what is wrong. */
static const char *gg_section_guard(PyObject *function, int section) {
    vectorcallfunc *const own = &((PyCFunctionObject *)function)->vectorcall, *const form = gg_form_of(function);
    if (!*own && form == &gg_by_form[METH_VARARGS | METH_KEYWORDS]) *own = gg_call_with_tuple;
    if (!*own) return "it has no vectorcall";
    if (*own == gg_call_shared || *own == gg_call_alone) return NULL;
    if (*form && *form != *own) return "another function of its form is called in another way";
    *form = *own;
    *own = section == GG_SHARED ? gg_call_shared : gg_call_alone;
    return NULL;
}
/* Ends the counting of references to an object that all threads use and that lives until the process ends: they would
 * wait for each other at its counter. Python does so for functions that are written in Python. */
static void gg_uncounted(PyObject *o) {
#if PY_VERSION_HEX >= 0x030E0000
    PyUnstable_Object_EnableDeferredRefcount(o);
#else
    if (PyObject_GC_IsTracked(o)) PyObject_GC_UnTrack(o);
    o->ob_tid = 0, o->ob_ref_local = UINT32_MAX, o->ob_ref_shared = 0;
#endif
}
#endif
#endif
