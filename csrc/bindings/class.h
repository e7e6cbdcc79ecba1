// Python classes of native types that stay intact without memory.
#pragma once

#include <exception>
#include <new>

#include "bindings/pybind.h"

namespace fastload {

// Note [without memory]
// pybind11 assumes that memory suffices in four places, and each has its remedy:
// - It writes to an instance even if Python did not allocate it. allocate_or_throw() throws instead.
// - It enters each instance in a map, so that a pointer which comes back becomes the same object. If that fails, it
//   frees the native object without its destructor, and often its owner frees it again. Nothing here needs the map, so
//   instances do not enter it: make_unregistered().
// - It reads the string by which it looks up a keyword without a check: pybind.h gives it a function that throws.
// - Exceptions thrown while it makes a holder or composes a message leave into Python's own frames, and a failed
//   conversion raises TypeError: guard_calls() in call_guard.cpp.

// For the slot tp_alloc.
inline PyObject* allocate_or_throw(PyTypeObject* type, Py_ssize_t num_items) {
    PyObject* const instance = PyType_GenericAlloc(type, num_items);
    if (instance != nullptr) return instance;
    PyErr_Clear();  // otherwise code of objects that are destroyed meanwhile would run with it
    throw std::bad_alloc();
}

// For the slot tp_new.
inline PyObject* new_or_memory_error(PyTypeObject* type, PyObject* arguments, PyObject* names) noexcept {
    type->tp_alloc = &allocate_or_throw;  // a Python class statement has set its own
    try {
        return pybind11::detail::pybind11_object_new(type, arguments, names);
    } catch (const std::exception&) {
        return PyErr_NoMemory();
    }
}

// Used like py::class_.
template <typename Type, typename... Options>
class Class : public pybind11::class_<Type, Options...> {
  public:
    template <typename... Extra>
    Class(pybind11::handle scope, const char* name, const Extra&... extra)
        : pybind11::class_<Type, Options...>(scope, name, extra...) {
        auto* const type = reinterpret_cast<PyTypeObject*>(this->ptr());
        type->tp_alloc = &allocate_or_throw;
        type->tp_new = &new_or_memory_error;
        pybind11::detail::type_info* const info = pybind11::detail::get_type_info(type);
        make_registered = info->init_instance;
        info->init_instance = &make_unregistered;
    }

  private:
    using InitInstance = void (*)(pybind11::detail::instance*, const void*);

    // Every instance has the simple layout: one base with native contents, and a holder of two pointers at most.
    static void make_unregistered(pybind11::detail::instance* instance, const void* holder) {
        instance->simple_instance_registered = true;
        try {
            make_registered(instance, holder);
        } catch (...) {
            instance->simple_instance_registered = false;
            instance->simple_value_holder[0] = nullptr;
            throw;
        }
        instance->simple_instance_registered = false;
    }

    static inline InitInstance make_registered = nullptr;
};

}  // namespace fastload
