// Exchanges the C functions of methods in the tables that the interpreter reads at each call, so that a thread with
// generators of its own calls the methods on these.
//
// Every reference to such a method, bound or not, leads to its PyMethodDef, and every call reads `ml_meth` there. So
// the exchanged function is called however the method was imported or kept. An attribute's `PyGetSetDef::get` is read
// in the same way.
#pragma once

#include <Python.h>

#include <vector>

#include "python/ref.h"
#include "python/thread_generators.h"

namespace fastload {

// The generator that calls on `process_object` use instead in a thread with generators of its own.
struct StandIn {
    Ref process_object;
    Ref ThreadGenerators::* own;
};

struct ExchangedMethod;
struct ExchangedGetter;

// Methods that are exchanged together. Use with the GIL. Undo the exchange before this object is destroyed.
//
// The add_ functions prepare an exchange. They return false, with a Python error (NotImplementedError), if it is
// impossible: the function is not written in C, has another name there, or has an unknown calling convention; its table
// is read-only; it was exchanged for something else before; or there are too many.
class MethodExchange {
  public:
    // Calls of the method on the process's object go to the thread's own one, if it has one.
    bool add_method(PyObject* function, const char* name, const StandIn& stand_in);
    // A thread with generators of its own calls `replacement` instead of `function`.
    bool add_function(PyObject* function, const char* name, PyObject* replacement);
    // A thread with generators of its own calls `replacement` with its torch.Generator before the arguments of
    // `function`; the replacement calls `function` by call_original(). With `tensor_type`, `function` takes a keyword
    // `generator`. Then it is called directly with the thread's, if it is sure to draw on the CPU: its arguments name
    // no device, all tensors among them are exactly of this type and on the CPU, and `count_modes()`, the number of
    // torch's modes that see calls first, is 0.
    bool add_drawing(PyObject* function, const char* name, PyObject* replacement, PyTypeObject* tensor_type,
                     PyObject* count_modes);
    // Reads of the attribute of the process's object go to the thread's own one. `descriptor` is the type's descriptor.
    bool add_attribute(PyObject* descriptor, const char* name, const StandIn& stand_in);

    void make() const noexcept;
    void undo() const noexcept;

  private:
    bool add(PyObject* function, const char* name, const ExchangedMethod& wanted);

    std::vector<const ExchangedMethod*> methods_;
    std::vector<const ExchangedGetter*> getters_;
};

// Calls the original of an exchanged function. This holds for one call, not for calls inside it. Null with a Python
// error.
PyObject* call_original(PyObject* function, PyObject* packed, PyObject* keywords);

}  // namespace fastload
