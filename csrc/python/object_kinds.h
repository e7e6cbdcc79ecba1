// Which objects are copied, which are shared, and how: decided once a type.
#pragma once

#include <Python.h>

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "python/ref.h"
#include "python/type_layout.h"

namespace fastload {

enum class ObjectKind {
    kShared,
    kList,
    kDict,
    kOrderedDict,
    kSet,
    kFrozenSet,
    kTuple,
    kDeque,
    kValue,  // of a class derived from str, bytes, int, float or complex: what its __dict__ and slots have may change
    kInstance,
    kFunction,
    kCell,
    kMethod,
    kBuiltinMethod,
    kWeakRef,
    kWeakProxy,
    kByPython,  // a Python function makes the copy
};

struct TypeEntry {
    Ref type;
    ObjectKind kind = ObjectKind::kShared;
    TypeLayout layout;
    // The default_factory of collections.defaultdict, where that is the C base; borrowed.
    PyObject* factory_member = nullptr;
    // kShared: the reason in words for the user; none if sharing makes no difference. kByPython: the maker.
    Ref reason_or_maker;
    // kByPython: the maker copies __dict__ and slots as well.
    bool maker_copies_all = false;
    bool has_finalizer = false;  // a __del__ made by a class statement
    // The instances that are globals of the type's module; filled when first asked for.
    std::unique_ptr<std::vector<Ref>> globals;

    bool has_attributes() const noexcept { return layout.has_dict || !layout.slot_offsets.empty(); }
};

// The types met so far. One serves all copies that one thread makes one after the other.
class ObjectKinds {
  public:
    // `kind_of(type, c_base)` is called for each type that is not a container of Python's own, and returns
    //   None: its C base decides; an error if that is unknown
    //   a str: instances are shared, and this is the reason; empty: sharing makes no difference
    //   (maker, copies_all): `maker(context, source)` makes the copy; see ObjectCopier.
    // `always_shared`: objects that all share, whatever their type.
    // Throws PythonError if the standard library cannot be imported.
    ObjectKinds(Ref kind_of, Ref always_shared);

    // Throws PythonError if kind_of raises. The entry lives as long as this object.
    TypeEntry& of(PyTypeObject* type);
    // Whether an instance is a global of its class's module: such instances are only compared by identity.
    bool is_global_of_module(TypeEntry& entry, PyObject* instance);
    // Does instance.__dict__ = dict, whatever `__dict__` means to the class.
    void set_dict(const TypeEntry& entry, PyObject* instance, PyObject* dict) const;
    // A tuple.
    PyObject* always_shared() const noexcept { return always_shared_.get(); }

  private:
    void classify(PyTypeObject* type, TypeEntry& entry);
    std::optional<ObjectKind> kind_of_c_base(const PyTypeObject* base) const;

    Ref class_with_dict_;
    Ref deque_;
    Ref default_dict_;
    Ref kind_of_;
    Ref always_shared_;
    std::unordered_map<PyTypeObject*, TypeEntry> entries_;
};

// Returns the referent of a weak reference; None if it is gone.
inline PyObject* referent_of(PyObject* weak) noexcept {
    PyObject* referent = reinterpret_cast<PyWeakReference*>(weak)->wr_object;
    return Py_REFCNT(referent) > 0 ? referent : Py_None;
}

// Whether an object is of a type whose instances cannot change.
inline bool is_plain(PyObject* object) noexcept {
    PyTypeObject* type = Py_TYPE(object);
    return type == &PyUnicode_Type || type == &PyLong_Type || object == Py_None || type == &PyFloat_Type ||
           type == &PyBool_Type || type == &PyBytes_Type || type == &PyType_Type || type == &PyComplex_Type;
}
// The same, with tuples of such objects.
inline bool is_plain_or_tuple(PyObject* object) noexcept {
    if (is_plain(object)) return true;
    if (!PyTuple_CheckExact(object)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
        if (!is_plain(PyTuple_GET_ITEM(object, i))) return false;
    }
    return true;
}

// Whether all keys of a dict are never copied, and compared by C code.
inline bool has_plain_keys(PyObject* dict) noexcept {
    PyObject* key = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, nullptr) != 0;) {
        if (!is_plain(key)) return false;
    }
    return true;
}

}  // namespace fastload
