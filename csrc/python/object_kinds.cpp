#include "python/object_kinds.h"

#include <memory>
#include <utility>

namespace fastload {
namespace {

Ref class_of_collections(const char* name) {
    return checked(PyObject_GetAttrString(checked(PyImport_ImportModule("collections")).get(), name));
}

bool has_finalizer(PyTypeObject* type) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
        auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
        if (PyType_HasFeature(base, Py_TPFLAGS_HEAPTYPE) && find_item(base->tp_dict, "__del__") != nullptr) {
            return true;
        }
    }
    return false;
}

}  // namespace

ObjectKinds::ObjectKinds(Ref kind_of, Ref always_shared)
    // No new one: a class refers to itself, so that each would stay until the collector runs.
    : class_with_dict_(class_of_collections("UserDict")),
      deque_(class_of_collections("deque")),
      default_dict_(class_of_collections("defaultdict")),
      kind_of_(std::move(kind_of)),
      always_shared_(std::move(always_shared)) {}

std::optional<ObjectKind> ObjectKinds::kind_of_c_base(const PyTypeObject* base) const {
    const auto* object = reinterpret_cast<const PyObject*>(base);
    if (base == &PyBaseObject_Type) return ObjectKind::kInstance;
    if (base == &PyList_Type) return ObjectKind::kList;
    if (base == &PyDict_Type || object == default_dict_.get()) return ObjectKind::kDict;
    if (base == &PyODict_Type) return ObjectKind::kOrderedDict;
    if (base == &PySet_Type) return ObjectKind::kSet;
    if (base == &PyFrozenSet_Type) return ObjectKind::kFrozenSet;
    if (base == &PyTuple_Type) return ObjectKind::kTuple;
    if (object == deque_.get()) return ObjectKind::kDeque;
    if (base == &PyUnicode_Type || base == &PyBytes_Type || base == &PyLong_Type || base == &PyFloat_Type ||
        base == &PyComplex_Type) {
        return ObjectKind::kValue;
    }
    if (base == &PyFunction_Type) return ObjectKind::kFunction;
    if (base == &PyCell_Type) return ObjectKind::kCell;
    if (base == &PyMethod_Type) return ObjectKind::kMethod;
    if (base == &PyCFunction_Type || base == &PyCMethod_Type) return ObjectKind::kBuiltinMethod;
    if (base == &_PyWeakref_RefType) return ObjectKind::kWeakRef;
    if (base == &_PyWeakref_ProxyType || base == &_PyWeakref_CallableProxyType) return ObjectKind::kWeakProxy;
    return std::nullopt;
}

TypeEntry& ObjectKinds::of(PyTypeObject* type) {
    if (const auto found = entries_.find(type); found != entries_.end()) return found->second;
    TypeEntry entry;
    classify(type, entry);
    return entries_.emplace(type, std::move(entry)).first->second;
}

void ObjectKinds::classify(PyTypeObject* type, TypeEntry& entry) {
    entry.type = Ref::borrow(reinterpret_cast<PyObject*>(type));
    if (PyType_IsSubtype(type, &PyType_Type) != 0) return;  // classes are shared
    if (type == &PyBaseObject_Type) return;                 // object() is nothing but an identity
    entry.layout = layout_of(type);
    PyTypeObject* base = entry.layout.c_base;
    const std::optional<ObjectKind> kind = kind_of_c_base(base);
    entry.kind = kind.value_or(ObjectKind::kShared);
    if (reinterpret_cast<PyObject*>(base) == default_dict_.get()) {
        entry.factory_member = find_item(base->tp_dict, "default_factory");
    }
    if (kind && type == base) {
        if (entry.kind == ObjectKind::kValue) entry.kind = ObjectKind::kShared;
        return;
    }
    entry.has_finalizer = has_finalizer(type);
    const Ref answer = checked(
        PyObject_CallFunctionObjArgs(kind_of_.get(), entry.type.get(), reinterpret_cast<PyObject*>(base), nullptr));
    if (PyUnicode_Check(answer.get())) {
        entry.kind = ObjectKind::kShared;
        if (PyUnicode_GetLength(answer.get()) > 0) entry.reason_or_maker = answer;
    } else if (PyTuple_Check(answer.get()) && PyTuple_GET_SIZE(answer.get()) == 2) {
        entry.kind = ObjectKind::kByPython;
        entry.reason_or_maker = Ref::borrow(PyTuple_GET_ITEM(answer.get(), 0));
        entry.maker_copies_all = PyTuple_GET_ITEM(answer.get(), 1) == Py_True;
    } else if (!kind) {
        PyErr_Format(PyExc_TypeError, "kind_of must say how to copy a %s, got %R", type->tp_name, answer.get());
        throw PythonError();
    }
}

void ObjectKinds::set_dict(const TypeEntry& entry, PyObject* instance, PyObject* dict) const {
    if (!entry.layout.is_dict_of_class_statement) {
        check(PyObject_GenericSetDict(instance, dict, nullptr));
        return;
    }
    // type() makes this descriptor for every class that adds a __dict__. In Python 3.13 PyObject_GenericSetDict() is
    // not enough for these classes: the values may lie in the instance.
    PyObject* descriptor = find_item(reinterpret_cast<PyTypeObject*>(class_with_dict_.get())->tp_dict, "__dict__");
    const PyGetSetDef* accessor = reinterpret_cast<PyGetSetDescrObject*>(descriptor)->d_getset;
    check(accessor->set(instance, dict, accessor->closure));
}

bool ObjectKinds::is_global_of_module(TypeEntry& entry, PyObject* instance) {
    if (entry.globals == nullptr) {
        auto globals = std::make_unique<std::vector<Ref>>();
        auto* type = reinterpret_cast<PyTypeObject*>(entry.type.get());
        PyObject* name =
            PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) ? find_item(type->tp_dict, "__module__") : nullptr;
        PyObject* modules = PyImport_GetModuleDict();
        PyObject* module = name != nullptr && PyUnicode_CheckExact(name) ? PyDict_GetItem(modules, name) : nullptr;
        if (module != nullptr && PyModule_Check(module)) {
            PyObject* key = nullptr;
            PyObject* value = nullptr;
            for (Py_ssize_t at = 0; PyDict_Next(PyModule_GetDict(module), &at, &key, &value) != 0;) {
                if (Py_TYPE(value) == type) globals->push_back(Ref::borrow(value));
            }
        }
        entry.globals = std::move(globals);
    }
    for (const Ref& known : *entry.globals) {
        if (known.get() == instance) return true;
    }
    return false;
}

}  // namespace fastload
