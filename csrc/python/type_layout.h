// The parts of a type's instances that a class statement has added to their C structure.
#pragma once

#include <Python.h>

#include <vector>

namespace fastload {

// The places of Python objects in a type's instances that its C base does not know of.
struct TypeLayout {
    // The nearest of the type and its bases whose size __dict__, __weakref__ and __slots__ do not explain: the code
    // that copies the rest of an instance must know this type. Borrowed; it lives as long as the type.
    PyTypeObject* c_base = nullptr;
    // Bytes from the start of an instance to each slot; the slot may be empty.
    std::vector<Py_ssize_t> slot_offsets;
    // Instances have a __dict__ and the C base has none: a class statement has added it, or a C type that has nothing
    // else, as types.SimpleNamespace.
    bool has_dict = false;
    bool is_dict_of_class_statement = false;
};

// Calls no code of the user's.
TypeLayout layout_of(PyTypeObject* type);

inline PyObject** slot_at(PyObject* instance, Py_ssize_t offset) noexcept {
    return reinterpret_cast<PyObject**>(reinterpret_cast<char*>(instance) + offset);
}
// Whether there is anything in __dict__ or slots. Throws PythonError when memory runs out.
bool has_content(const TypeLayout& layout, PyObject* instance);

}  // namespace fastload
