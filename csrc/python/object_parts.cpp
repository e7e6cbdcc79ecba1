// Fills copies with their contents: see Note [shells] in object_copier.h.
#include "python/object_copier.h"

#include <algorithm>

namespace fastload {
namespace {

// The number of elements, at even distances, that are looked into in a large container.
constexpr std::size_t kNumLookedInto = 64;

Ref pack(std::initializer_list<PyObject*> objects) {
    Ref tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(objects.size())));
    Py_ssize_t position = 0;
    for (PyObject* object : objects) PyTuple_SET_ITEM(tuple.get(), position++, Ref::borrow(object).release());
    return tuple;
}

bool is_same(PyObject* tuple, PyObject* other) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
        if (PyTuple_GET_ITEM(tuple, i) != PyTuple_GET_ITEM(other, i)) return false;
    }
    return true;
}

bool has_only_plain_keys(PyObject* set) {
    const auto* table = reinterpret_cast<PySetObject*>(set);
    for (Py_ssize_t i = 0; i <= table->mask; ++i) {
        const setentry& entry = table->table[i];
        if (entry.key != nullptr && entry.hash != -1 && !is_plain_or_tuple(entry.key)) return false;
    }
    return true;
}

}  // namespace

// ---- objects that cannot change once made --------------------------------------------------------------------------

Ref ObjectCopier::parts_of(const TypeEntry& entry, PyObject* object) {
    switch (entry.kind) {
        case ObjectKind::kTuple: {
            if (PyTuple_CheckExact(object)) return Ref::borrow(object);
            return checked(PyTuple_GetSlice(object, 0, PyTuple_GET_SIZE(object)));
        }
        case ObjectKind::kFrozenSet: {
            const std::vector<HashedEntry> entries = entries_of_set(object);
            Ref parts = checked(PyTuple_New(static_cast<Py_ssize_t>(entries.size())));
            for (std::size_t i = 0; i < entries.size(); ++i) {
                PyTuple_SET_ITEM(parts.get(), static_cast<Py_ssize_t>(i), Ref(entries[i].key).release());
            }
            return parts;
        }
        case ObjectKind::kMethod:
            return pack({PyMethod_GET_FUNCTION(object), PyMethod_GET_SELF(object)});
        case ObjectKind::kBuiltinMethod: {
            PyObject* self = PyCFunction_GET_SELF(object);
            return self == nullptr || PyModule_Check(self) ? empty_tuple_ : pack({self});
        }
        default: {  // a weak reference
            PyObject* callback = reinterpret_cast<PyWeakReference*>(object)->wr_callback;
            return callback == nullptr ? empty_tuple_ : pack({callback});
        }
    }
}

Ref ObjectCopier::copy_of_parts(TypeEntry& entry, PyObject* source, PyObject* copies) {
    PyTypeObject* base = entry.layout.c_base;
    const bool is_weak = entry.kind == ObjectKind::kWeakRef || entry.kind == ObjectKind::kWeakProxy;
    if (!is_weak && is_same(copies, parts_of(entry, source).get()) && !has_content(entry.layout, source)) {
        return Ref::borrow(source);
    }
    switch (entry.kind) {
        case ObjectKind::kTuple: {
            if (PyTuple_CheckExact(source)) return Ref::borrow(copies);
            return checked(base->tp_new(Py_TYPE(source), pack({copies}).get(), nullptr));
        }
        case ObjectKind::kFrozenSet: {
            const std::vector<HashedEntry> entries = entries_of_set(source);
            const Ref keys = checked(PyDict_New());
            for (std::size_t i = 0; i < entries.size(); ++i) {
                const Ref copy = Ref::borrow(PyTuple_GET_ITEM(copies, static_cast<Py_ssize_t>(i)));
                Py_hash_t hash = 0;
                const bool is_shared = hash_of_copy(entries[i], copy.get(), &hash) == KeyCopy::kImpossible;
                set_item(keys.get(), is_shared ? entries[i].key : copy, Ref(), is_shared ? entries[i].hash : hash);
            }
            return checked(base->tp_new(Py_TYPE(source), pack({keys.get()}).get(), nullptr));
        }
        case ObjectKind::kMethod:
            return checked(PyMethod_New(PyTuple_GET_ITEM(copies, 0), PyTuple_GET_ITEM(copies, 1)));
        case ObjectKind::kBuiltinMethod: {
            const auto* method = reinterpret_cast<PyCFunctionObject*>(source);
            return checked(PyCMethod_New(method->m_ml, PyTuple_GET_ITEM(copies, 0), method->m_module,
                                         PyCFunction_GET_CLASS(source)));
        }
        default: {
            PyObject* referent = memo_or_self(referent_of(source));
            PyObject* callback = PyTuple_GET_SIZE(copies) > 0 ? PyTuple_GET_ITEM(copies, 0) : nullptr;
            if (entry.kind == ObjectKind::kWeakProxy) return checked(PyWeakref_NewProxy(referent, callback));
            const Ref arguments = pack({referent, callback == nullptr ? Py_None : callback});
            return checked(base->tp_new(Py_TYPE(source), arguments.get(), nullptr));
        }
    }
}

// ---- containers ----------------------------------------------------------------------------------------------------

template <typename NextElement>
std::size_t ObjectCopier::count_copies(const NextElement& next_element) {
    std::vector<Ref> elements;
    std::unordered_set<PyObject*> seen;
    while (PyObject* element = next_element()) {
        if (is_plain_or_tuple(element)) continue;
        elements.push_back(Ref::borrow(element));
        seen.insert(element);
        if (elements.size() > limits_.max_objects) return elements.size();
    }
    if (elements.empty()) return 0;
    count_held(elements[0].get(), seen);                                  // notes the contents that all have in common
    const std::size_t distance = (elements.size() / kNumLookedInto) | 1;  // odd: keys and values come in turn
    std::size_t num_looked_into = 0;
    std::size_t num_held = 0;
    for (std::size_t i = 1; i < elements.size(); i += distance) {
        num_held += count_held(elements[i].get(), seen);
        ++num_looked_into;
    }
    return elements.size() + (num_looked_into == 0 ? 0 : elements.size() * num_held / num_looked_into);
}

std::size_t ObjectCopier::count_held(PyObject* object, std::unordered_set<PyObject*>& seen) {
    std::size_t count = 0;
    std::vector<Ref> left{Ref::borrow(object)};
    const auto add = [&](PyObject* part) {
        if (part == nullptr || is_plain_or_tuple(part) || memo_.count(part) > 0 || !seen.insert(part).second) return;
        ++count;
        left.push_back(Ref::borrow(part));
    };
    const auto add_values = [&](PyObject* dict) {
        PyObject* value = nullptr;
        for (Py_ssize_t at = 0; PyDict_Next(dict, &at, nullptr, &value) != 0;) add(value);
    };
    while (!left.empty() && count <= limits_.max_objects) {
        const Ref holder = std::move(left.back());
        left.pop_back();
        PyObject* held_by = holder.get();
        if (PyList_CheckExact(held_by)) {
            for (Py_ssize_t i = 0; i < PyList_GET_SIZE(held_by); ++i) add(PyList_GET_ITEM(held_by, i));
        } else if (PyTuple_CheckExact(held_by)) {
            for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(held_by); ++i) add(PyTuple_GET_ITEM(held_by, i));
        } else if (PyDict_CheckExact(held_by)) {
            add_values(held_by);
        } else if (const TypeEntry& entry = kinds_.of(Py_TYPE(held_by)); entry.kind == ObjectKind::kInstance) {
            for (const Py_ssize_t offset : entry.layout.slot_offsets) add(*slot_at(held_by, offset));
            if (entry.layout.has_dict) add_values(checked(PyObject_GenericGetDict(held_by, nullptr)).get());
        }
    }
    return count;
}

bool ObjectCopier::fill_list(Fill& fill) {
    PyObject* source = fill.source.get();
    PyObject* shell = fill.shell.get();
    if (PyList_GET_SIZE(shell) == 0 && PyList_GET_SIZE(source) > 0) {  // of a derived class
        const Ref items = checked(PyList_GetSlice(source, 0, PyList_GET_SIZE(source)));
        check(PyList_SetSlice(shell, 0, 0, items.get()));
    }
    const auto size = static_cast<std::size_t>(PyList_GET_SIZE(source));
    bool shares = false;
    if (size > limits_.max_elements) {
        Py_ssize_t at = 0;
        const std::size_t num_copies =
            count_copies([&] { return at < PyList_GET_SIZE(source) ? PyList_GET_ITEM(source, at++) : nullptr; });
        if (num_copies == 0) return true;
        shares = shares_elements(source, size, num_copies);
    }
    bool is_complete = true;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(source) && i < PyList_GET_SIZE(shell); ++i) {
        PyObject* item = PyList_GET_ITEM(source, i);
        if (is_plain_or_tuple(item)) continue;
        const Ref held = Ref::borrow(item);
        PyObject* copy = item;
        if (shares) {
            copy = memo_or_self(item);
        } else if (resolve_fully(item, &copy) == Outcome::kLater) {
            is_complete = false;
        }
        if (copy != item && i < PyList_GET_SIZE(shell)) check(PyList_SetItem(shell, i, Ref::borrow(copy).release()));
    }
    return is_complete;
}

bool ObjectCopier::fill_dict(Fill& fill) {
    if (fill.entry->factory_member != nullptr) {
        PyObject* member = fill.entry->factory_member;
        const Ref factory = checked(Py_TYPE(member)->tp_descr_get(member, fill.source.get(), nullptr));
        PyObject* copy = nullptr;
        if (resolve_fully(factory.get(), &copy) == Outcome::kLater) return false;
        check(Py_TYPE(member)->tp_descr_set(member, fill.shell.get(), copy));
    }
    if (PyDict_CheckExact(fill.shell.get()) && has_plain_keys(fill.source.get())) {
        return fill_dict_values(fill.source.get(), fill.shell.get());
    }
    return rebuild_dict(fill);
}

bool ObjectCopier::fill_dict_values(PyObject* source, PyObject* shell) {
    const auto size = static_cast<std::size_t>(PyDict_GET_SIZE(source));
    bool shares = false;
    if (size > limits_.max_elements) {
        Py_ssize_t at = 0;
        PyObject* value = nullptr;
        const std::size_t num_copies =
            count_copies([&] { return PyDict_Next(source, &at, nullptr, &value) != 0 ? value : nullptr; });
        if (num_copies == 0) return true;
        shares = shares_elements(source, size, num_copies);
    }
    bool is_complete = true;
    PyObject* next_key = nullptr;
    PyObject* next_value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(source, &at, &next_key, &next_value) != 0;) {
        if (is_plain_or_tuple(next_value)) continue;
        const Ref key = Ref::borrow(next_key);
        const Ref value = Ref::borrow(next_value);
        PyObject* copy = value.get();
        if (shares) {
            copy = memo_or_self(copy);
        } else if (resolve_fully(value.get(), &copy) == Outcome::kLater) {
            is_complete = false;
        }
        if (copy != value.get()) check(PyDict_SetItem(shell, key.get(), copy));
    }
    return is_complete;
}

bool ObjectCopier::resolve_entries(std::vector<HashedEntry>& entries, bool shares, bool* keeps_hashes) {
    bool is_complete = true;
    *keeps_hashes = true;
    const auto resolve_part = [&](const Ref& part) {
        PyObject* copy = part.get();
        if (shares) return Ref::borrow(memo_or_self(copy));
        is_complete = resolve_fully(part.get(), &copy) != Outcome::kLater && is_complete;
        return Ref::borrow(copy);
    };
    for (HashedEntry& entry : entries) {
        if (entry.value) entry.value = resolve_part(entry.value);
        Ref key = resolve_part(entry.key);
        is_complete = is_complete && (shares || is_final_ || key.get() == entry.key.get());  // Note [shells]
        Py_hash_t hash = 0;
        const KeyCopy found = is_complete ? hash_of_copy(entry, key.get(), &hash) : KeyCopy::kImpossible;
        if (found == KeyCopy::kImpossible) continue;
        *keeps_hashes = *keeps_hashes && found == KeyCopy::kByStoredHash;
        entry = {std::move(key), entry.value, hash};
    }
    return is_complete;
}

bool ObjectCopier::rebuild_dict(const Fill& fill) {
    PyObject* source = fill.source.get();
    std::vector<HashedEntry> entries = entries_of_dict(source);
    if (fill.entry->kind == ObjectKind::kOrderedDict) {
        const Ref keys = checked(PySequence_List(checked(PyODict_Type.tp_iter(source)).get()));
        std::unordered_map<PyObject*, std::size_t> places;
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys.get()); ++i) {
            places[PyList_GET_ITEM(keys.get(), i)] = static_cast<std::size_t>(i);
        }
        std::sort(entries.begin(), entries.end(), [&](const HashedEntry& one, const HashedEntry& other) {
            return places[one.key.get()] < places[other.key.get()];
        });
    }
    std::size_t at = 0;
    const auto next_part = [&]() -> PyObject* {
        if (at == 2 * entries.size()) return nullptr;
        const HashedEntry& entry = entries[at / 2];
        return (at++ % 2 == 0 ? entry.key : entry.value).get();
    };
    const bool shares =
        entries.size() > limits_.max_elements && shares_elements(source, entries.size(), count_copies(next_part));
    bool keeps_hashes = false;
    if (!resolve_entries(entries, shares, &keeps_hashes)) return false;
    if (fill.entry->kind == ObjectKind::kOrderedDict) {
        for (const HashedEntry& entry : entries) {
            check(PyODict_SetItem(fill.shell.get(), entry.key.get(), entry.value.get()));
        }
        return true;
    }
    for (const HashedEntry& entry : entries) set_item(fill.shell.get(), entry.key, entry.value, entry.hash);
    return true;
}

bool ObjectCopier::fill_set(Fill& fill) {
    if (has_only_plain_keys(fill.shell.get())) return true;
    std::vector<HashedEntry> entries = entries_of_set(fill.shell.get());
    std::size_t at = 0;
    const auto next_key = [&] { return at < entries.size() ? entries[at++].key.get() : nullptr; };
    const bool shares = entries.size() > limits_.max_elements &&
                        shares_elements(fill.source.get(), entries.size(), count_copies(next_key));
    bool keeps_hashes = false;
    if (!resolve_entries(entries, shares, &keeps_hashes)) return false;
    if (keeps_hashes) {
        std::vector<Ref> keys;
        keys.reserve(entries.size());
        for (const HashedEntry& entry : entries) keys.push_back(entry.key);
        replace_set_keys(fill.shell.get(), keys);
        return true;
    }
    const Ref keys = checked(PyDict_New());
    for (const HashedEntry& entry : entries) set_item(keys.get(), entry.key, Ref(), entry.hash);
    check(PySet_Type.tp_init(fill.shell.get(), pack({keys.get()}).get(), nullptr));
    return true;
}

bool ObjectCopier::fill_deque(Fill& fill) {
    PyTypeObject* base = fill.entry->layout.c_base;
    const Ref items = checked(PySequence_List(checked(base->tp_iter(fill.source.get())).get()));
    const auto size = static_cast<std::size_t>(PyList_GET_SIZE(items.get()));
    const bool shares = size > limits_.max_elements && shares_elements(fill.source.get(), size, size);
    bool is_complete = true;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
        PyObject* item = PyList_GET_ITEM(items.get(), i);
        if (is_plain_or_tuple(item)) continue;
        PyObject* copy = item;
        if (shares) {
            copy = memo_or_self(item);
        } else if (resolve_fully(item, &copy) == Outcome::kLater) {
            is_complete = false;
        }
        // In its place, as an iterator of the copy may be there.
        if (copy != item) check(base->tp_as_sequence->sq_ass_item(fill.shell.get(), i, copy));
    }
    return is_complete;
}

// ---- functions, makers, attributes ---------------------------------------------------------------------------------

bool ObjectCopier::fill_function(Fill& fill) {
    bool is_complete = true;
    const auto copy_of = [&](PyObject* part) {
        PyObject* copy = part;
        is_complete = (part == nullptr || resolve_fully(part, &copy) != Outcome::kLater) && is_complete;
        return copy;
    };
    if (fill.entry->kind == ObjectKind::kCell) {
        const Ref content = Ref::borrow(PyCell_GET(fill.source.get()));
        check(PyCell_Set(fill.shell.get(), copy_of(content.get())));
        return is_complete;
    }
    auto* function = reinterpret_cast<PyFunctionObject*>(fill.source.get());
    if (PyObject* defaults = copy_of(function->func_defaults)) {
        check(PyFunction_SetDefaults(fill.shell.get(), defaults));
    }
    if (PyObject* defaults = copy_of(function->func_kwdefaults)) {
        check(PyFunction_SetKwDefaults(fill.shell.get(), defaults));
    }
    if (PyObject* attributes = copy_of(function->func_dict)) {
        check(PyObject_SetAttrString(fill.shell.get(), "__dict__", attributes));
    }
    return is_complete;
}

bool ObjectCopier::fill_by_python(Fill& fill) {
    const Py_ssize_t num_parts = PyTuple_GET_SIZE(fill.parts.get());
    const Ref copies = checked(PyTuple_New(num_parts));
    bool is_complete = true;
    for (Py_ssize_t i = 0; i < num_parts; ++i) {
        PyObject* copy = nullptr;
        is_complete = resolve_fully(PyTuple_GET_ITEM(fill.parts.get(), i), &copy) != Outcome::kLater && is_complete;
        PyTuple_SET_ITEM(copies.get(), i, Ref::borrow(copy).release());
    }
    if (is_complete) checked(PyObject_CallFunctionObjArgs(fill.finish.get(), copies.get(), nullptr));
    return is_complete;
}

bool ObjectCopier::fill_attributes(Fill& fill) {
    PyObject* source = fill.source.get();
    PyObject* shell = fill.shell.get();
    bool is_complete = true;
    for (const Py_ssize_t offset : fill.entry->layout.slot_offsets) {
        const Ref value = Ref::borrow(*slot_at(source, offset));
        if (!value) continue;
        PyObject* copy = nullptr;
        is_complete = resolve_fully(value.get(), &copy) != Outcome::kLater && is_complete;
        const Ref old = Ref::steal(*slot_at(shell, offset));
        *slot_at(shell, offset) = Ref::borrow(copy).release();
    }
    if (!fill.entry->layout.has_dict) return is_complete;
    const Ref dict = checked(PyObject_GenericGetDict(source, nullptr));
    const bool is_made_when_missing = PyType_HasFeature(Py_TYPE(source), Py_TPFLAGS_HEAPTYPE);
    if (is_made_when_missing && PyDict_GET_SIZE(dict.get()) == 0 && Py_REFCNT(dict.get()) <= 2) return is_complete;
    if (dict.get() != source && Py_REFCNT(dict.get()) <= 2 && PyDict_CheckExact(dict.get()) &&
        has_plain_keys(dict.get())) {
        // Nothing else holds it, so the memo need not know it.
        const Ref copy = checked(PyDict_Copy(dict.get()));
        is_complete = fill_dict_values(dict.get(), copy.get()) && is_complete;
        kinds_.set_dict(*fill.entry, shell, copy.get());
        return is_complete;
    }
    PyObject* copy = nullptr;
    resolve_fully(dict.get(), &copy);  // a shell: it is never late
    kinds_.set_dict(*fill.entry, shell, copy);
    return is_complete;
}

}  // namespace fastload
