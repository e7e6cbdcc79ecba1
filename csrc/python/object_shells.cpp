// Empty copies, and which functions and instances need one: see Note [shells] in object_copier.h.
#include "python/object_copier.h"

namespace fastload {
namespace {

// A function whose defaults or attributes lead through this many others is copied without a look at them.
constexpr int kMaxFunctionDepth = 8;

// The value of an instance of a class derived from str and the like, as one of str itself.
Ref bare_value(PyTypeObject* base, PyObject* object) {
    if (base == &PyUnicode_Type) return checked(PyUnicode_FromObject(object));
    if (base == &PyBytes_Type) {
        return checked(PyBytes_FromStringAndSize(PyBytes_AS_STRING(object), PyBytes_GET_SIZE(object)));
    }
    if (base == &PyFloat_Type) return checked(PyFloat_FromDouble(PyFloat_AS_DOUBLE(object)));
    if (base == &PyComplex_Type) {
        return checked(PyComplex_FromDoubles(PyComplex_RealAsDouble(object), PyComplex_ImagAsDouble(object)));
    }
    return checked(PyLong_Type.tp_as_number->nb_int(object));
}

Ref new_instance(PyTypeObject* type, PyObject* no_arguments) {
    Ref instance = Ref::steal(PyBaseObject_Type.tp_new(type, no_arguments, nullptr));
    if (instance) return instance;
    clear_answer();  // the class is abstract, though it has an instance
    return checked(type->tp_alloc(type, 0));
}

// Whether instances are called, asked for elements or iterated over, not only compared. They may get attributes then.
bool is_used(const PyTypeObject* type) {
    const bool has_elements = type->tp_as_mapping != nullptr && type->tp_as_mapping->mp_subscript != nullptr;
    return has_elements || type->tp_call != nullptr || type->tp_iter != nullptr;
}

}  // namespace

Ref ObjectCopier::new_shell(TypeEntry& entry, PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    PyTypeObject* base = entry.layout.c_base;
    PyObject* none = empty_tuple_.get();
    switch (entry.kind) {
        case ObjectKind::kList:
            if (PyList_CheckExact(object)) return checked(PyList_GetSlice(object, 0, PyList_GET_SIZE(object)));
            return checked(base->tp_new(type, none, nullptr));
        case ObjectKind::kDict:
            if (PyDict_CheckExact(object) && has_plain_keys(object)) return checked(PyDict_Copy(object));
            return checked(base->tp_new(type, none, nullptr));
        case ObjectKind::kSet: {
            Ref shell = checked(base->tp_new(type, none, nullptr));
            copy_set_table(object, shell.get());
            return shell;
        }
        case ObjectKind::kDeque: {
            Ref shell = checked(base->tp_new(type, none, nullptr));
            PyObject* member = find_item(base->tp_dict, "maxlen");
            const Ref max_length = checked(Py_TYPE(member)->tp_descr_get(member, object, none));
            const Ref items = checked(PySequence_List(checked(base->tp_iter(object)).get()));
            const Ref arguments = checked(PyTuple_Pack(2, items.get(), max_length.get()));
            check(base->tp_init(shell.get(), arguments.get(), nullptr));
            return shell;
        }
        case ObjectKind::kValue: {
            const Ref value = bare_value(base, object);
            const Ref arguments = checked(PyTuple_Pack(1, value.get()));
            return checked(base->tp_new(type, arguments.get(), nullptr));
        }
        case ObjectKind::kInstance:
            return new_instance(type, none);
        case ObjectKind::kFunction:
            return new_function(object);
        case ObjectKind::kCell:
            return checked(PyCell_New(nullptr));
        default:
            return checked(base->tp_new(type, none, nullptr));
    }
}

Ref ObjectCopier::new_function(PyObject* source) {
    auto* function = reinterpret_cast<PyFunctionObject*>(source);
    Ref shell =
        checked(PyFunction_NewWithQualName(function->func_code, function->func_globals, function->func_qualname));
    const auto set = [&](const char* name, PyObject* value) {
        if (value != nullptr) check(PyObject_SetAttrString(shell.get(), name, value));
    };
    set("__name__", function->func_name);
    set("__doc__", function->func_doc);
    set("__module__", function->func_module);
    const Ref annotations = Ref::steal(PyObject_GetAttrString(source, "__annotations__"));
    if (annotations && PyDict_Check(annotations.get()) && PyDict_GET_SIZE(annotations.get()) > 0) {
        set("__annotations__", annotations.get());
    }
    if (!annotations) clear_answer();
    if (function->func_closure != nullptr) {
        const Py_ssize_t num_cells = PyTuple_GET_SIZE(function->func_closure);
        const Ref closure = checked(PyTuple_New(num_cells));
        for (Py_ssize_t i = 0; i < num_cells; ++i) {
            PyObject* cell = nullptr;
            resolve(PyTuple_GET_ITEM(function->func_closure, i), &cell);  // a shell: it never waits
            PyTuple_SET_ITEM(closure.get(), i, Ref::borrow(cell).release());
        }
        check(PyFunction_SetClosure(shell.get(), closure.get()));
    }
    return shell;
}

bool ObjectCopier::is_changeable_function(PyObject* object, int depth) {
    auto* function = reinterpret_cast<PyFunctionObject*>(object);
    if (depth == kMaxFunctionDepth) return true;
    // Functions made with functools.wraps() are often compared, and a name of a function is not rebound.
    const Py_ssize_t num_cells = function->func_closure == nullptr ? 0 : PyTuple_GET_SIZE(function->func_closure);
    for (Py_ssize_t i = 0; i < num_cells; ++i) {
        PyObject* content = PyCell_GET(PyTuple_GET_ITEM(function->func_closure, i));
        const bool is_code =
            content != nullptr && (PyFunction_Check(content) || PyCFunction_Check(content) || PyType_Check(content));
        if (!is_code || may_be_changed(content, depth + 1)) return true;
    }
    if (function->func_defaults != nullptr && may_be_changed(function->func_defaults, depth + 1)) return true;
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    for (Py_ssize_t at = 0;
         function->func_dict != nullptr && PyDict_Next(function->func_dict, &at, &key, &value) != 0;) {
        const bool is_wrapped = PyUnicode_Check(key) && PyUnicode_CompareWithASCIIString(key, "__wrapped__") == 0;
        if (!is_wrapped || may_be_changed(value, depth + 1)) return true;
    }
    PyObject* defaults = function->func_kwdefaults;
    for (Py_ssize_t at = 0; defaults != nullptr && PyDict_Next(defaults, &at, nullptr, &value) != 0;) {
        if (may_be_changed(value, depth + 1)) return true;
    }
    return false;
}

bool ObjectCopier::may_be_changed(PyObject* value, int depth) {
    if (is_plain(value)) return false;
    if (PyFunction_Check(value)) return is_changeable_function(value, depth);
    if (PyTuple_CheckExact(value) && depth < kMaxFunctionDepth) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
            if (may_be_changed(PyTuple_GET_ITEM(value, i), depth + 1)) return true;
        }
        return false;
    }
    if (PyCFunction_Check(value)) {
        PyObject* self = PyCFunction_GET_SELF(value);
        return self != nullptr && !PyModule_Check(self) && may_be_changed(self, depth + 1);
    }
    TypeEntry& entry = kinds_.of(Py_TYPE(value));
    if (entry.kind == ObjectKind::kInstance && is_sentinel(entry, value)) return false;
    return entry.kind != ObjectKind::kShared || entry.reason_or_maker;  // objects shared for a reason are reported
}

bool ObjectCopier::is_sentinel(TypeEntry& entry, PyObject* instance) {
    if (is_used(Py_TYPE(instance)) || has_content(entry.layout, instance)) return false;
    return kinds_.is_global_of_module(entry, instance);
}

}  // namespace fastload
