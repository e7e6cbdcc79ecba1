// The last step of next(), which cannot be Python code: a signal handler may raise after any call in it.
#include "bindings/bindings.h"

namespace py = pybind11;

namespace fastload {
namespace {

// Has `iterator` prepare its batch, and takes it from its list `_ready`. After the check for signals no Python code
// runs until the caller has the batch. If another thread took the batch between the two steps, this tries again.
PyObject* next_when_ready(PyObject*, PyObject* iterator) {
    for (;;) {
        PyObject* const prepared = PyObject_CallMethod(iterator, "_prepare", nullptr);
        if (prepared == nullptr) return nullptr;
        Py_DECREF(prepared);
        if (PyErr_CheckSignals() != 0) return nullptr;
        PyObject* const ready = PyObject_GetAttrString(iterator, "_ready");
        if (ready == nullptr) return nullptr;
        PyObject* const batch =
            PyList_Check(ready) && PyList_GET_SIZE(ready) == 1 ? PyList_GET_ITEM(ready, 0) : nullptr;
        Py_XINCREF(batch);
        const int cleared = batch == nullptr ? 0 : PyList_SetSlice(ready, 0, 1, nullptr);
        Py_DECREF(ready);
        if (cleared != 0) {
            Py_DECREF(batch);
            return nullptr;
        }
        if (batch != nullptr) return batch;
    }
}

PyMethodDef kNextWhenReady = {"__next__", next_when_ready, METH_O, "Waits for the next batch and returns it."};

}  // namespace

void bind_next(py::module_& m) {
    const auto function = py::reinterpret_steal<py::object>(PyCFunction_New(&kNextWhenReady, nullptr));
    if (!function) throw py::error_already_set();
    // A C function does not become a method of the class that contains it.
    const auto method = py::reinterpret_steal<py::object>(PyInstanceMethod_New(function.ptr()));
    if (!method) throw py::error_already_set();
    m.attr("next_when_ready") = method;
}

}  // namespace fastload
