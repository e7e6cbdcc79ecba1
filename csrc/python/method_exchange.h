// Exchanges the functions of methods that are written in C, where the interpreter reads them at each call, so that a
// thread with generators of its own calls them on these.
//
// Whoever holds such a method, bound or not, holds a pointer to its PyMethodDef, and every call reads `ml_meth` there.
// So an exchanged function is called however the method was imported or kept. An attribute's `PyGetSetDef::get` is read
// in the same way.
#pragma once

#include <Python.h>

#include <vector>

#include "python/ref.h"
#include "python/thread_generators.h"

namespace fastload {

// What calls on `process_object` go to in a thread that has generators of its own: one of these.
struct StandIn {
    Ref process_object;
    Ref ThreadGenerators::* own;
};

struct ExchangedMethod;
struct ExchangedGetter;

// Methods that are exchanged together. Use with the GIL. Must be undone before it goes.
//
// What prepares an exchange returns false, with a Python error (NotImplementedError), where that cannot be done: the
// thing is not written in C, or has another name there, or is called in a way that is not known, or its table is
// read-only, or it was exchanged for something else before, or there are too many.
class MethodExchange {
  public:
    // Calls of the method on the process's object are on the thread's own, where it has one.
    bool add_method(PyObject* function, const char* name, const StandIn& stand_in);
    // A thread with generators of its own calls `replacement` in place of `function`.
    bool add_function(PyObject* function, const char* name, PyObject* replacement);
    // A thread that has `thread_draws` calls `replacement` with these before the arguments of `function`, which the
    // replacement calls by call_original(). With a type of tensors, `function` takes a keyword `generator`: then it is
    // called itself, with what `thread_draws` gives, where it has no device among its arguments but that of tensors of
    // just this type, which is the CPU, and `count_modes()`, of torch's modes that see calls first, is 0.
    bool add_drawing(PyObject* function, const char* name, PyObject* replacement, PyTypeObject* tensor_type,
                     PyObject* count_modes);
    // The attribute of the process's object is that of the thread's own; `descriptor` is what its type has for it.
    bool add_attribute(PyObject* descriptor, const char* name, const StandIn& stand_in);

    void make() const noexcept;
    void undo() const noexcept;

  private:
    std::vector<const ExchangedMethod*> methods_;
    std::vector<const ExchangedGetter*> getters_;
};

// Calls a function as if it were not exchanged: once, and not what it calls. Null with a Python error.
PyObject* call_original(PyObject* function, PyObject* packed, PyObject* keywords);

}  // namespace fastload
