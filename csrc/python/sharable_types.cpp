#include "python/sharable_types.h"

#include <frameobject.h>

#include <cstring>
#include <utility>

namespace fastload {
namespace {

// The beginnings of NumPy's PyArrayObject and PyArray_Descr, which have been part of its binary interface since 1.7.
struct ArrayHead {
    PyObject ob_base;
    char* data;
    int num_dimensions;
    Py_ssize_t* dimensions;
    Py_ssize_t* strides;
    PyObject* base;
    PyObject* element_type;
};
struct ElementTypeHead {
    PyObject ob_base;
    PyTypeObject* scalar_type;
    char kind;
};

const ArrayHead& head_of(PyObject* array) noexcept { return *reinterpret_cast<ArrayHead*>(array); }
char element_kind_of(PyObject* array) noexcept {
    return reinterpret_cast<ElementTypeHead*>(head_of(array).element_type)->kind;
}

// Returns a type of an imported module, none if there is no such module. Imports nothing.
Ref find_type(const char* module, const char* name) {
    PyObject* const found = find_item(PyImport_GetModuleDict(), module);
    if (found == nullptr || !PyModule_Check(found)) return {};
    PyObject* const type = find_item(PyModule_GetDict(found), name);
    return type != nullptr && PyType_Check(type) ? Ref::borrow(type) : Ref();
}

// Returns a class as a class statement makes it. There is one for all, as a class is a cycle that only the collector
// frees.
Ref plain_class() {
    static PyObject* made = nullptr;
    if (made == nullptr) {
        made = checked(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type), "s(){}", "plain")).release();
    }
    return Ref::borrow(made);
}

// The list lies before the object for classes made by a class statement, hence also negative offsets.
bool has_weak_references(PyObject* object) noexcept {
    const Py_ssize_t offset = Py_TYPE(object)->tp_weaklistoffset;
    return offset != 0 && *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset) != nullptr;
}

// Returns false once `parts` takes no more.
bool list_elements(const ArrayHead& array, const char* at, int dimension, ObjectList& parts) noexcept {
    if (dimension == array.num_dimensions) {
        PyObject* element = nullptr;
        std::memcpy(&element, at, sizeof element);  // may be unaligned
        return element == nullptr || parts.push(element);
    }
    for (Py_ssize_t i = 0; i < array.dimensions[dimension]; ++i) {
        if (!list_elements(array, at + i * array.strides[dimension], dimension + 1, parts)) return false;
    }
    return true;
}

// Whether a search for containers ends at an object, as nothing is below it or what is there belongs to no data set.
bool is_end(PyObject* object) noexcept {
    return PyType_Check(object) || PyModule_Check(object) || PyUnicode_Check(object) || PyLong_Check(object) ||
           PyFloat_Check(object) || PyBytes_Check(object) || PyCode_Check(object) || PyFrame_Check(object) ||
           PyGen_Check(object) || PyCoro_CheckExact(object) || object == Py_None;
}

}  // namespace

SharableTypes::SharableTypes()
    : plain_class_(plain_class()),
      array_(find_type("numpy", "ndarray")),
      array_scalar_(find_type("numpy", "generic")),
      tensor_(find_type("torch", "Tensor")),
      element_(find_type("_elementtree", "Element")),
      deque_(find_type("_collections", "deque")),
      default_dict_(find_type("_collections", "defaultdict")) {
    for (const char* const name : {"date", "time", "datetime", "timedelta"}) {
        if (Ref type = find_type("_datetime", name)) more_leaves_.push_back(std::move(type));
    }
    if (Ref type = find_type("_decimal", "Decimal")) more_leaves_.push_back(std::move(type));
}

SharableKind SharableTypes::kind_of_builtin(const PyTypeObject* type) const noexcept {
    for (const PyTypeObject* leaf : {&PyUnicode_Type, &PyLong_Type, &PyFloat_Type, &PyBytes_Type}) {
        if (type == leaf) return SharableKind::kLeaf;
    }
    for (const PyTypeObject* container :
         {&PyList_Type, &PyTuple_Type, &PyDict_Type, &PySet_Type, &PyFrozenSet_Type, &PyODict_Type, &PySlice_Type}) {
        if (type == container) return SharableKind::kContainer;
    }
    for (const Ref* container : {&deque_, &default_dict_, &element_}) {
        if (type == as_type(*container)) return SharableKind::kContainer;
    }
    if (type == &PyComplex_Type || type == &PyRange_Type) return SharableKind::kLeaf;
    for (const Ref& leaf : more_leaves_) {
        if (type == as_type(leaf)) return SharableKind::kLeaf;
    }
    return SharableKind::kOther;
}

SharableKind SharableTypes::kind_of_array(PyObject* array) const noexcept {
    PyObject* const base = head_of(array).base;
    if (base != nullptr && !is_array(base) && !PyBytes_CheckExact(base)) return SharableKind::kOther;
    if (element_kind_of(array) == 'V') return SharableKind::kOther;  // its fields may be objects
    return base != nullptr || element_kind_of(array) == 'O' ? SharableKind::kContainer : SharableKind::kLeaf;
}

// All that class statements add to an instance is freed and traversed by the functions of every such class. A class
// with others has a part in C that only it knows.
SharableKind SharableTypes::kind_of_instance(PyObject* instance) const noexcept {
    PyTypeObject* const type = Py_TYPE(instance);
    const PyTypeObject* const plain = as_type(plain_class_);
    if (type->tp_finalize != nullptr || type->tp_del != nullptr) return SharableKind::kOther;
    const PyTypeObject* base = type;
    for (; base != nullptr && base->tp_dealloc == plain->tp_dealloc; base = base->tp_base) {
        const bool is_traversed = base->tp_traverse == nullptr || base->tp_traverse == plain->tp_traverse ||
                                  base->tp_traverse == base->tp_base->tp_traverse;
        if (!is_traversed) return SharableKind::kOther;
    }
    if (base == type || base == nullptr) return SharableKind::kOther;
    if (base != &PyBaseObject_Type && kind_of_builtin(base) == SharableKind::kOther) return SharableKind::kOther;
    return PyType_IS_GC(type) ? SharableKind::kContainer : SharableKind::kLeaf;
}

SharableKind SharableTypes::kind_of(PyObject* object) const noexcept {
    PyTypeObject* const type = Py_TYPE(object);
    SharableKind kind = kind_of_builtin(type);
    if (kind == SharableKind::kOther) {
        if (is_array(object)) {
            kind = kind_of_array(object);
        } else if (array_scalar_ && PyType_IsSubtype(type, as_type(array_scalar_)) != 0 &&
                   !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) {
            return type->tp_itemsize == 0 && std::strcmp(type->tp_name, "numpy.void") != 0 ? SharableKind::kLeaf
                                                                                           : SharableKind::kPassedBy;
        } else if (PyType_Check(object) || PyModule_Check(object) || PyFunction_Check(object) ||
                   PyCFunction_Check(object) || object == Py_None || object == Py_Ellipsis || PyBool_Check(object) ||
                   (tensor_ && PyType_IsSubtype(type, as_type(tensor_)) != 0)) {
            return SharableKind::kPassedBy;
        } else {
            kind = kind_of_instance(object);
        }
    }
    return has_weak_references(object) ? SharableKind::kOther : kind;
}

Py_ssize_t SharableTypes::length_of(PyObject* object) const noexcept {
    PyTypeObject* const type = Py_TYPE(object);
    if (PyList_Check(object) || PyTuple_Check(object)) return Py_SIZE(object);
    if (PyDict_Check(object)) return reinterpret_cast<PyDictObject*>(object)->ma_used;
    if (PyAnySet_Check(object)) return reinterpret_cast<PySetObject*>(object)->used;
    if (is_array(object)) {
        if (element_kind_of(object) != 'O') return -1;
        Py_ssize_t length = 1;
        for (int i = 0; i < head_of(object).num_dimensions; ++i) length *= head_of(object).dimensions[i];
        return length;
    }
    if (deque_ && PyType_IsSubtype(type, as_type(deque_)) != 0) return Py_SIZE(object);
    return element_ && type == as_type(element_) ? type->tp_as_sequence->sq_length(object) : -1;
}

void SharableTypes::list_parts(PyObject* object, ObjectList& parts) const noexcept {
    if (PyList_CheckExact(object) || PyTuple_CheckExact(object)) {
        PyObject** const items = PySequence_Fast_ITEMS(object);
        for (Py_ssize_t i = 0; i < Py_SIZE(object) && parts.push(items[i]); ++i) {
        }
        return;
    }
    if (is_array(object)) {
        const ArrayHead& array = head_of(object);
        if (array.base != nullptr) parts.push(array.base);
        if (element_kind_of(object) == 'O') list_elements(array, array.data, 0, parts);
        return;
    }
    if (PyDict_Check(object)) {  // its traverse function leaves text keys out
        PyObject* key = nullptr;
        PyObject* value = nullptr;
        for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &value) != 0;) {
            if (!parts.push(key) || !parts.push(value)) return;
        }
        if (PyDict_CheckExact(object)) return;
    }
    const traverseproc traverse = Py_TYPE(object)->tp_traverse;
    if (traverse != nullptr) traverse(object, &ObjectList::push_visited, &parts);
}

void SharableTypes::list_way_on(PyObject* object, ObjectList& way) const noexcept {
    if (is_end(object)) return;
    if (PyFunction_Check(object)) {  // without its globals
        for (PyObject* part :
             {PyFunction_GET_CLOSURE(object), PyFunction_GET_DEFAULTS(object), PyFunction_GET_KW_DEFAULTS(object)}) {
            if (part != nullptr) way.push(part);
        }
        return;
    }
    // An object that the collector does not know may not be complete, except for these.
    const bool is_complete = PyDict_Check(object) || PyTuple_CheckExact(object) || is_array(object) ||
                             (PyObject_IS_GC(object) && PyObject_GC_IsTracked(object) != 0);
    if (is_complete) list_parts(object, way);
}

}  // namespace fastload
