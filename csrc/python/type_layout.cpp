#include "python/type_layout.h"

#include <structmember.h>

#include "python/ref.h"

namespace fastload {
namespace {

constexpr Py_ssize_t kPointerBytes = sizeof(PyObject*);

// Returns the offsets of the slots that the class statement of `type` itself has made.
std::vector<Py_ssize_t> own_slots(PyTypeObject* type) {
    std::vector<Py_ssize_t> offsets;
    PyObject* name = nullptr;
    PyObject* value = nullptr;
    for (Py_ssize_t position = 0; PyDict_Next(type->tp_dict, &position, &name, &value) != 0;) {
        if (Py_TYPE(value) != &PyMemberDescr_Type) continue;
        const auto* descriptor = reinterpret_cast<PyMemberDescrObject*>(value);
        if (descriptor->d_common.d_type == type && descriptor->d_member->type == T_OBJECT_EX) {
            offsets.push_back(descriptor->d_member->offset);
        }
    }
    return offsets;
}

bool adds_dict(const PyTypeObject* type) { return type->tp_dictoffset != 0 && type->tp_base->tp_dictoffset == 0; }

// Returns the bytes that the __dict__ and __weakref__ of `type` itself take in an instance. From Python 3.11 and 3.12
// on they lie before it.
Py_ssize_t own_pointer_bytes(PyTypeObject* type) {
    bool counts_dict = adds_dict(type);
    bool counts_weak_list = type->tp_weaklistoffset != 0 && type->tp_base->tp_weaklistoffset == 0;
#ifdef Py_TPFLAGS_MANAGED_DICT
    counts_dict = counts_dict && !PyType_HasFeature(type, Py_TPFLAGS_MANAGED_DICT);
#endif
#ifdef Py_TPFLAGS_MANAGED_WEAKREF
    counts_weak_list = counts_weak_list && !PyType_HasFeature(type, Py_TPFLAGS_MANAGED_WEAKREF);
#endif
    return (counts_dict ? kPointerBytes : 0) + (counts_weak_list ? kPointerBytes : 0);
}

// Whether a type that is not made by a class statement is a __dict__ and nothing else, as types.SimpleNamespace.
bool is_only_dict(PyTypeObject* type) {
    return type->tp_base == &PyBaseObject_Type && type->tp_dictoffset > 0 && type->tp_itemsize == 0;
}

}  // namespace

TypeLayout layout_of(PyTypeObject* type) {
    TypeLayout layout;
    for (; type->tp_base != nullptr; type = type->tp_base) {
        const bool is_class = PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE);
        if (!is_class && !is_only_dict(type)) break;
        const std::vector<Py_ssize_t> slots = is_class ? own_slots(type) : std::vector<Py_ssize_t>();
        const auto explained = static_cast<Py_ssize_t>(slots.size()) * kPointerBytes + own_pointer_bytes(type);
        const bool is_same_array = type->tp_itemsize == type->tp_base->tp_itemsize;
        if (!is_same_array || type->tp_basicsize - type->tp_base->tp_basicsize != explained) break;
        layout.slot_offsets.insert(layout.slot_offsets.end(), slots.begin(), slots.end());
        layout.has_dict = layout.has_dict || adds_dict(type);
        layout.is_dict_of_class_statement = layout.is_dict_of_class_statement || (is_class && adds_dict(type));
    }
    layout.c_base = type;
    return layout;
}

bool has_content(const TypeLayout& layout, PyObject* instance) {
    for (const Py_ssize_t offset : layout.slot_offsets) {
        if (*slot_at(instance, offset) != nullptr) return true;
    }
    return layout.has_dict && PyDict_Size(checked(PyObject_GenericGetDict(instance, nullptr)).get()) > 0;
}

}  // namespace fastload
