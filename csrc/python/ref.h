// Owning references to Python objects, and the C++ exception for a Python exception that is set.
#pragma once

#include <Python.h>

#include <exception>
#include <utility>

namespace fastload {

// An owning reference, or none. All operations need the GIL, and dropping the last reference may run Python code.
class Ref {
  public:
    Ref() = default;
    // Takes over a reference that the caller owns; null stays null.
    static Ref steal(PyObject* object) noexcept { return Ref(object); }
    // Adds a reference; null stays null.
    static Ref borrow(PyObject* object) noexcept {
        Py_XINCREF(object);
        return Ref(object);
    }
    Ref(const Ref& other) noexcept : object_(other.object_) { Py_XINCREF(object_); }
    Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Ref& operator=(Ref other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~Ref() { Py_XDECREF(object_); }

    PyObject* get() const noexcept { return object_; }
    // Returns another reference, which the caller owns.
    PyObject* share() const noexcept {
        Py_XINCREF(object_);
        return object_;
    }
    // Passes the reference to the caller.
    PyObject* release() noexcept { return std::exchange(object_, nullptr); }
    explicit operator bool() const noexcept { return object_ != nullptr; }

  private:
    explicit Ref(PyObject* object) noexcept : object_(object) {}

    PyObject* object_ = nullptr;
};

// A call into Python has failed, and its exception is set in this thread.
class PythonError : public std::exception {
  public:
    const char* what() const noexcept override { return "a Python exception is set"; }
};

// Takes over a new reference that a C function of Python has returned. Throws PythonError if it is null.
inline Ref checked(PyObject* new_reference) {
    if (new_reference == nullptr) throw PythonError();
    return Ref::steal(new_reference);
}

// Throws PythonError if a C function of Python has returned -1.
inline void check(int result) {
    if (result < 0) throw PythonError();
}

// Returns the value of `key` in `dict`, borrowed; null if it has none. PyDict_GetItemString() also returns null when
// memory runs out.
inline PyObject* find_item(PyObject* dict, const char* key) {
    const Ref name = checked(PyUnicode_InternFromString(key));
    PyObject* const item = PyDict_GetItemWithError(dict, name.get());
    if (item == nullptr && PyErr_Occurred() != nullptr) throw PythonError();
    return item;
}

// Converts between types of C functions, without the warning of compilers.
template <typename To, typename From>
To cast_function(From function) noexcept {
    return reinterpret_cast<To>(reinterpret_cast<void (*)()>(function));
}

}  // namespace fastload
