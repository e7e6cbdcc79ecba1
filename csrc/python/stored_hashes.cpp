#include "python/stored_hashes.h"

#include <algorithm>
#include <cstdint>
#include <new>
#include <unordered_map>

#if PY_VERSION_HEX >= 0x030D0000
// Exported, but without a public header since Python 3.13.
extern "C" PyAPI_FUNC(int) _PyDict_SetItem_KnownHash(PyObject* dict, PyObject* key, PyObject* value, Py_hash_t hash);
#endif

namespace fastload {
namespace {

// The inputs of a key's hash.
struct HashNature {
    bool has_address = false;    // an address, which is another one in a copy
    bool has_user_code = false;  // a __hash__ made by a class statement
};

// Deeper keys count as the user's own.
constexpr int kMaxKeyDepth = 16;

bool is_class_statement(PyTypeObject* type) { return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE); }

HashNature nature_of(PyObject* key, int depth = 0) {
    PyTypeObject* type = Py_TYPE(key);
    if (type->tp_hash == PyBaseObject_Type.tp_hash) return {true, false};
    if (depth == kMaxKeyDepth) return {false, true};
    HashNature nature;
    const auto add = [&](PyObject* part) {
        const HashNature more = nature_of(part, depth + 1);
        nature = {nature.has_address || more.has_address, nature.has_user_code || more.has_user_code};
    };
    if (type->tp_hash == PyTuple_Type.tp_hash) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) add(PyTuple_GET_ITEM(key, i));
    } else if (type->tp_hash == PyFrozenSet_Type.tp_hash) {
        for (const HashedEntry& entry : entries_of_set(key)) add(entry.key.get());
    } else if (type->tp_hash == _PyWeakref_RefType.tp_hash) {
        add(reinterpret_cast<PyWeakReference*>(key)->wr_object);
    } else if (type->tp_hash == PyMethod_Type.tp_hash || type->tp_hash == PyCFunction_Type.tp_hash) {
        nature.has_address = true;
    } else {
        nature.has_user_code = is_class_statement(type);
    }
    return nature;
}

Py_hash_t address_hash(PyObject* object) { return PyBaseObject_Type.tp_hash(object); }
// Returns hash(id(object)), as torch.Tensor.__hash__ does.
Py_hash_t id_hash(PyObject* object) { return static_cast<Py_hash_t>(reinterpret_cast<std::uintptr_t>(object)); }

#if PY_VERSION_HEX >= 0x030D0000
// Returns the stored hashes by key, by way of a set, which takes them over from an exact dict.
std::unordered_map<PyObject*, Py_hash_t> hashes_by_way_of_set(PyObject* dict) {
    const Ref exact = PyDict_CheckExact(dict) ? Ref::borrow(dict) : checked(PyDict_Copy(dict));
    std::unordered_map<PyObject*, Py_hash_t> hashes;
    for (const HashedEntry& entry : entries_of_set(checked(PySet_New(exact.get())).get())) {
        hashes.emplace(entry.key.get(), entry.hash);
    }
    return hashes;
}
#endif

}  // namespace

std::vector<HashedEntry> entries_of_dict(PyObject* dict) {
    std::vector<HashedEntry> entries;
    entries.reserve(static_cast<std::size_t>(PyDict_Size(dict)));
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    Py_ssize_t position = 0;
#if PY_VERSION_HEX >= 0x030D0000
    bool has_user_code = false;
    while (PyDict_Next(dict, &position, &key, &value) != 0) {
        has_user_code = has_user_code || nature_of(key).has_user_code;
        entries.push_back({Ref::borrow(key), Ref::borrow(value), 0});
    }
    // PyDict_Copy() asks a derived class that has its own __iter__.
    if (has_user_code && Py_TYPE(dict)->tp_iter == PyDict_Type.tp_iter) {
        const auto hashes = hashes_by_way_of_set(dict);
        for (HashedEntry& entry : entries) entry.hash = hashes.at(entry.key.get());
        return entries;
    }
    for (HashedEntry& entry : entries) {
        entry.hash = PyObject_Hash(entry.key.get());
        if (entry.hash == -1) throw PythonError();
    }
#else
    Py_hash_t hash = 0;
    while (_PyDict_Next(dict, &position, &key, &value, &hash) != 0) {
        entries.push_back({Ref::borrow(key), Ref::borrow(value), hash});
    }
#endif
    return entries;
}

std::vector<HashedEntry> entries_of_set(PyObject* set) {
    const auto* table = reinterpret_cast<PySetObject*>(set);
    std::vector<HashedEntry> entries;
    entries.reserve(static_cast<std::size_t>(table->used));
    for (Py_ssize_t i = 0; i <= table->mask; ++i) {
        const setentry& entry = table->table[i];
        // Only removed entries have the hash -1.
        if (entry.key != nullptr && entry.hash != -1) entries.push_back({Ref::borrow(entry.key), Ref(), entry.hash});
    }
    return entries;
}

KeyCopy hash_of_copy(const HashedEntry& entry, PyObject* copy, Py_hash_t* hash) {
    PyObject* key = entry.key.get();
    *hash = entry.hash;
    if (copy == key) return KeyCopy::kByStoredHash;
    if (entry.hash == address_hash(key)) {
        *hash = address_hash(copy);
        return KeyCopy::kByNewHash;
    }
    if (entry.hash == id_hash(key)) {
        *hash = id_hash(copy);
        return KeyCopy::kByNewHash;
    }
    const HashNature nature = nature_of(key);
    if (!nature.has_address) return KeyCopy::kByStoredHash;
    if (nature.has_user_code) return KeyCopy::kImpossible;
    *hash = PyObject_Hash(copy);
    if (*hash == -1) throw PythonError();
    return KeyCopy::kByNewHash;
}

void set_item(PyObject* dict, const Ref& key, const Ref& value, Py_hash_t hash) {
    check(_PyDict_SetItem_KnownHash(dict, key.get(), value ? value.get() : Py_None, hash));
}

void copy_set_table(PyObject* source, PyObject* copy) {
    const auto* from = reinterpret_cast<PySetObject*>(source);
    auto* to = reinterpret_cast<PySetObject*>(copy);
    const auto num_slots = static_cast<std::size_t>(from->mask) + 1;
    if (num_slots > PySet_MINSIZE) {
        auto* table = static_cast<setentry*>(PyMem_Malloc(num_slots * sizeof(setentry)));
        if (table == nullptr) throw std::bad_alloc();
        to->table = table;
    }
    std::copy(from->table, from->table + num_slots, to->table);
    for (std::size_t i = 0; i < num_slots; ++i) {
        if (to->table[i].key != nullptr && to->table[i].hash != -1) Py_INCREF(to->table[i].key);
    }
    to->mask = from->mask;
    to->fill = from->fill;
    to->used = from->used;
    to->finger = from->finger;
    to->hash = from->hash;
}

void replace_set_keys(PyObject* set, const std::vector<Ref>& keys) {
    auto* table = reinterpret_cast<PySetObject*>(set);
    auto next = keys.begin();
    for (Py_ssize_t i = 0; i <= table->mask && next != keys.end(); ++i) {
        setentry& entry = table->table[i];
        if (entry.key == nullptr || entry.hash == -1) continue;
        const Ref old = Ref::steal(entry.key);
        entry.key = Ref(*next++).release();
    }
}

}  // namespace fastload
