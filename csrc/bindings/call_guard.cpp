// The layer between Python and each function of the module: see Note [without memory].
#include <Python.h>

#include <exception>
#include <new>
#include <stdexcept>

#include "bindings/bindings.h"
#include "python/ref.h"

namespace py = pybind11;

namespace fastload {
namespace {

using CallWithArray = PyObject* (*)(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names);

// pybind11's one function for all functions of a module. Its arguments come in an array, before version 3.1 in a tuple.
PyCFunction g_dispatcher = nullptr;

// If a value could not be converted for lack of memory, pybind11 has raised a TypeError because of that.
PyObject* with_memory_error(PyObject* result) noexcept {
    if (result != nullptr || PyErr_ExceptionMatches(PyExc_TypeError) == 0) return result;
    PyObject* type = nullptr;
    PyObject* error = nullptr;
    PyObject* traceback = nullptr;
    PyErr_Fetch(&type, &error, &traceback);
    // An exception without an object has no cause. Asking for one may end the process: see guard_calls().
    const bool is_object = error != nullptr && PyExceptionInstance_Check(error);
    const Ref cause = Ref::steal(is_object ? PyException_GetCause(error) : nullptr);
    PyErr_Restore(type, error, traceback);
    const bool is_of_memory = cause && PyErr_GivenExceptionMatches(cause.get(), PyExc_MemoryError) != 0;
    return is_of_memory ? PyErr_NoMemory() : nullptr;
}

template <typename Call, typename... Arguments>
PyObject* guarded(Arguments... arguments) {
    try {
        return with_memory_error(cast_function<Call>(g_dispatcher)(arguments...));
    } catch (const std::exception&) {
        return PyErr_NoMemory();  // pybind11 has turned all others into Python's errors
    }
}

PyObject* call_with_array(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
    return guarded<CallWithArray>(self, arguments, count, names);
}

PyObject* call_with_tuple(PyObject* self, PyObject* arguments, PyObject* names) {
    return guarded<PyCFunctionWithKeywords>(self, arguments, names);
}

PyMethodDef* definition_of(const py::handle& function) noexcept {
    return reinterpret_cast<PyCFunctionObject*>(function.ptr())->m_ml;
}

// Methods and properties lead to functions.
void guard(const py::handle& object) {
    if (!PyCFunction_Check(object.ptr())) {
        for (const char* const part : {"__func__", "fget"}) {
            if (py::hasattr(object, part)) guard(object.attr(part));
        }
        return;
    }
    PyMethodDef* const method = definition_of(object);
    if (method->ml_meth != g_dispatcher) return;
    method->ml_meth = (method->ml_flags & METH_FASTCALL) != 0 ? cast_function<PyCFunction>(&call_with_array)
                                                              : cast_function<PyCFunction>(&call_with_tuple);
}

}  // namespace

void guard_calls(py::module_& m, const char* any_function) {
    py::register_local_exception_translator([](std::exception_ptr thrown) {
        try {
            std::rethrow_exception(thrown);
        } catch (const PythonError&) {
            return;
        } catch (const std::bad_alloc&) {
            // pybind11 would ask for the object of an exception that is already set. CPython ends the process if there
            // is no memory for it.
            PyErr_NoMemory();
        } catch (const std::runtime_error&) {
            // pybind11 throws a bare one if Python makes no object; Python has then set the reason.
            if (PyErr_Occurred() == nullptr || PyErr_ExceptionMatches(PyExc_MemoryError) == 0) throw;
        }
    });
    g_dispatcher = definition_of(m.attr(any_function))->ml_meth;
    for (const auto& [name, member] : m.attr("__dict__").cast<py::dict>()) {
        guard(member);
        if (!PyType_Check(member.ptr())) continue;
        for (const py::handle part : py::list(member.attr("__dict__").attr("values")())) guard(part);
    }
}

}  // namespace fastload
