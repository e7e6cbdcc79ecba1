// Steps during which a signal handler must not raise: Note [interrupts] and Note [drops] in
// fastload/_process/_interrupts.py.
#include <unistd.h>

#include "bindings/bindings.h"
#include "bindings/class.h"

namespace py = pybind11;

namespace fastload {
namespace {

// Has `iterator` prepare its batch, and takes it from its list `_ready`. After the check for signals no Python code
// runs until the caller has the batch. If another thread took the batch between the two steps, this tries again.
PyObject* next_when_ready(PyObject*, PyObject* iterator) {
    for (;;) {
        if (!Ref::steal(PyObject_CallMethod(iterator, "_prepare", nullptr))) return nullptr;
        if (PyErr_CheckSignals() != 0) return nullptr;
        const Ref ready = Ref::steal(PyObject_GetAttrString(iterator, "_ready"));
        if (!ready) return nullptr;
        if (!PyList_Check(ready.get()) || PyList_GET_SIZE(ready.get()) != 1) continue;
        Ref batch = Ref::borrow(PyList_GET_ITEM(ready.get(), 0));
        return PyList_SetSlice(ready.get(), 0, 1, nullptr) == 0 ? batch.release() : nullptr;
    }
}

PyMethodDef g_next_when_ready = {"__next__", next_when_ready, METH_O, "Waits for the next batch and returns it."};

class CallsAtDrop {
  public:
    explicit CallsAtDrop(py::tuple calls) : calls_(std::move(calls)) {}
    CallsAtDrop(const CallsAtDrop&) = delete;  // one drop
    CallsAtDrop& operator=(const CallsAtDrop&) = delete;

    ~CallsAtDrop() {
        if (::getpid() != owner_pid_) return;
        for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(calls_.ptr()); ++at) {
            const Ref result = Ref::steal(PyObject_CallNoArgs(PyTuple_GET_ITEM(calls_.ptr(), at)));
            if (!result) PyErr_WriteUnraisable(calls_.ptr());
        }
    }

  private:
    const py::tuple calls_;
    const pid_t owner_pid_ = ::getpid();
};

// An instance of the Python class Droppable.
struct Droppable {
    PyObject_HEAD;
    PyObject* interrupt;  // of _when_dropped(), to be raised again; or null
};

PyObject*& interrupt_of(PyObject* self) noexcept { return reinterpret_cast<Droppable*>(self)->interrupt; }

// Takes the exception that is set.
Ref take_error() noexcept {
    PyObject* type = nullptr;
    PyObject* error = nullptr;
    PyObject* traceback = nullptr;
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    if (traceback != nullptr) PyException_SetTraceback(error, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return Ref::steal(error);
}

void set_error(PyObject* error) noexcept { PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error); }

// Keeps a handler's exception, to be raised when `self` is gone. Its frames refer to `self`, so they are let go.
void hold_interrupt(PyObject* self, Ref error) noexcept {
    PyException_SetTraceback(error.get(), Py_None);
    PyException_SetContext(error.get(), nullptr);
    Py_XSETREF(interrupt_of(self), error.release());
}

// Prints `error` as Python does for finalizers. The function is named, because a report may keep what it names.
void report(PyObject* self, PyObject* error) noexcept {
    const Ref function =
        Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(self)), "_when_dropped"));
    if (!function) PyErr_Clear();
    set_error(error);
    PyErr_WriteUnraisable(function.get());
}

void call_when_dropped(PyObject* self) noexcept {
    for (;;) {
        if (Ref::steal(PyObject_CallMethod(self, "_when_dropped", nullptr))) return;
        Ref error = take_error();
        const Ref is_interrupt = Ref::steal(PyObject_CallMethod(self, "_is_interrupt", "O", error.get()));
        if (is_interrupt.get() == Py_True) {
            hold_interrupt(self, std::move(error));
            continue;
        }
        if (!is_interrupt && !PyErr_ExceptionMatches(PyExc_MemoryError)) return hold_interrupt(self, take_error());
        PyErr_Clear();
        return report(self, error.get());
    }
}

void finalize(PyObject* self) {
    PyObject* type = nullptr;
    PyObject* error = nullptr;
    PyObject* traceback = nullptr;
    PyErr_Fetch(&type, &error, &traceback);
    call_when_dropped(self);
    PyErr_Restore(type, error, traceback);
}

// For Py_AddPendingCall(); takes over the reference.
int raise_again(void* error) {
    const Ref interrupt = Ref::steal(static_cast<PyObject*>(error));
    set_error(interrupt.get());
    return -1;
}

// Runs when a subclass has let go of everything else that `self` holds, so no finalizer of that comes in between.
void deallocate(PyObject* self) {
    PyObject* const interrupt = interrupt_of(self);
    if (interrupt != nullptr && Py_AddPendingCall(&raise_again, interrupt) != 0) Py_DECREF(interrupt);
    PyTypeObject* const type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyType_Slot g_droppable_slots[] = {{Py_tp_finalize, reinterpret_cast<void*>(&finalize)},
                                   {Py_tp_dealloc, reinterpret_cast<void*>(&deallocate)},
                                   {0, nullptr}};
PyType_Spec g_droppable = {"fastload._core.Droppable", sizeof(Droppable), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                           g_droppable_slots};

}  // namespace

void bind_interrupts(py::module_& m) {
    // A C function does not become a method of the class that contains it.
    const Ref function = checked(PyCFunction_New(&g_next_when_ready, nullptr));
    m.attr("next_when_ready") =
        py::reinterpret_steal<py::object>(checked(PyInstanceMethod_New(function.get())).release());
    Class<CallsAtDrop>(m, "CallsAtDrop").def(py::init<py::tuple>(), py::arg("calls"));
    m.attr("Droppable") = py::reinterpret_steal<py::object>(checked(PyType_FromSpec(&g_droppable)).release());
}

}  // namespace fastload
