#include "python/thread_generators.h"

#include <utility>

namespace fastload {

__thread ThreadSetting thread_setting __attribute__((tls_model("initial-exec"))) = {nullptr, nullptr};

Ref exchange_thread_generators(ThreadGenerators* generators, PyObject* owner) noexcept {
    Py_XINCREF(owner);
    return Ref::steal(std::exchange(thread_setting, ThreadSetting{generators, owner}).owner);
}

namespace {

// Returns the __dict__ with the calling thread's value. Null with a Python error.
Ref find_attributes(PyObject* process_object) noexcept {
    const ThreadGenerators* own = generators_of_thread();
    return Ref::steal(PyObject_GenericGetDict(own == nullptr ? process_object : own->random.get(), nullptr));
}

// Interned; lives as long as the process.
PyObject* key = nullptr;

PyObject* get_gauss_next(PyObject* self, void* /*closure*/) {
    const Ref attributes = find_attributes(self);
    if (!attributes) return nullptr;
    PyObject* value = PyDict_GetItemWithError(attributes.get(), key);
    if (value == nullptr && PyErr_Occurred() == nullptr) PyErr_SetObject(PyExc_AttributeError, key);
    Py_XINCREF(value);
    return value;
}

int set_gauss_next(PyObject* self, PyObject* value, void* /*closure*/) {
    const Ref attributes = find_attributes(self);
    if (!attributes) return -1;
    return value == nullptr ? PyDict_DelItem(attributes.get(), key) : PyDict_SetItem(attributes.get(), key, value);
}

PyGetSetDef definition = {"gauss_next", get_gauss_next, set_gauss_next, nullptr, nullptr};

}  // namespace

Ref make_gauss_next(PyTypeObject* type) noexcept {
    if (key == nullptr) key = PyUnicode_InternFromString(definition.name);
    return Ref::steal(key == nullptr ? nullptr : PyDescr_NewGetSet(type, &definition));
}

}  // namespace fastload
