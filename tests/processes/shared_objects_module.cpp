// The product's forks of workers as a module of their own, for Pythons without torch and pybind11. The linker leads the
// product's fork() and _exit() to the functions here, which make them fail when a test wants that.
#include <Python.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <exception>

#include "python/large_containers.h"
#include "python/ref.h"
#include "python/sharable_types.h"
#include "python/worker_forks.h"

namespace {

using namespace fastload;

enum Fault { kNone, kFail, kKill };

Fault g_fault = kNone;
int g_call = 0;  // at which fork the fault comes, the maker's own being -1; at _exit() if there is none so late
int g_calls = -1;

bool is_now() { return g_fault != kNone && g_calls++ == g_call; }

PyObject* estimate_objects(PyObject*, PyObject* roots) {
    const SharableTypes types;
    const DataSetEstimate estimated = estimate(types, LargeContainers(types, roots));
    return Py_BuildValue("(dd)", estimated.num_sharable, estimated.num_bytes);
}

PyObject* call_fork_workers(PyObject*, PyObject* arguments) {
    PyObject* roots = nullptr;
    int num_workers = 0;
    if (PyArg_ParseTuple(arguments, "Oi", &roots, &num_workers) == 0) return nullptr;
    g_calls = -1;
    try {
        return fork_workers(roots, num_workers).release();
    } catch (const PythonError&) {
        return nullptr;
    }
}

PyObject* call_sharing_obstacle(PyObject*, PyObject*) { return Py_BuildValue("z", sharing_obstacle()); }

// set_fault(kind, call)
PyObject* set_fault(PyObject*, PyObject* arguments) {
    int kind = 0;
    if (PyArg_ParseTuple(arguments, "ii", &kind, &g_call) == 0) return nullptr;
    g_fault = static_cast<Fault>(kind);
    Py_RETURN_NONE;
}

PyObject* raw_count(PyObject*, PyObject* object) { return PyLong_FromSsize_t(Py_REFCNT(object)); }

// add_counts(objects, number): as Py_INCREF() and Py_DECREF() of extensions built for the stable ABI of Python before
// 3.12, which do not know immortal objects.
PyObject* add_counts(PyObject*, PyObject* arguments) {
    PyObject* objects = nullptr;
    int number = 0;
    if (PyArg_ParseTuple(arguments, "O!i", &PyList_Type, &objects, &number) == 0) return nullptr;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(objects); ++i) {
        PyObject* const object = PyList_GET_ITEM(objects, i);
        if ((*reinterpret_cast<Py_ssize_t*>(object) += number) == 0) _Py_Dealloc(object);
    }
    Py_RETURN_NONE;
}

PyMethodDef g_methods[] = {
    {"add_counts", &add_counts, METH_VARARGS, nullptr},
    {"estimate_objects", &estimate_objects, METH_O, nullptr},
    {"fork_workers", &call_fork_workers, METH_VARARGS, nullptr},
    {"sharing_obstacle", &call_sharing_obstacle, METH_NOARGS, nullptr},
    {"set_fault", &set_fault, METH_VARARGS, nullptr},
    {"raw_count", &raw_count, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef g_module = {PyModuleDef_HEAD_INIT, "shared_objects", nullptr, -1, g_methods, {}, {}, {}, {}};

}  // namespace

extern "C" {

pid_t __real_fork();
[[noreturn]] void __real__exit(int status);

pid_t __wrap_fork() {
    if (!is_now()) return __real_fork();
    if (g_fault == kKill) ::kill(::getpid(), SIGKILL);
    errno = EAGAIN;
    return -1;
}

[[noreturn]] void __wrap__exit(int status) {
    if (is_now()) ::kill(::getpid(), SIGKILL);
    __real__exit(status);
}

}  // extern "C"

PyMODINIT_FUNC PyInit_shared_objects() { return PyModule_Create(&g_module); }
