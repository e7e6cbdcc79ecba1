// The hashes that dicts and sets keep of their keys, by which copies are found without a call of the user's __hash__.
#pragma once

#include <Python.h>

#include <vector>

#include "python/ref.h"

namespace fastload {

// A key of a dict or set, with the hash by which it is found there.
struct HashedEntry {
    Ref key;
    Ref value;  // none in a set
    Py_hash_t hash;
};

// Returns the entries of a dict or of a class derived from it, in their order, without calling a derived class's
// methods. From Python 3.13 on the keys' __hash__ is called if the derived class has an __iter__: their hashes cannot
// be had.
std::vector<HashedEntry> entries_of_dict(PyObject* dict);
// Returns the entries of a set or frozenset, or of a class derived from these, in the order of their iterator.
std::vector<HashedEntry> entries_of_set(PyObject* set);

// How a copied key is found.
enum class KeyCopy {
    kByStoredHash,  // the hash comes from a value: the copy has the same one
    kByNewHash,     // the hash is the object's address: the copy has its own
    kImpossible,    // both at once, in a tuple for instance: the key must be shared
};

// Fills `hash` with the hash of `copy`; `entry` has the original's. Calls no __hash__ of a class statement.
KeyCopy hash_of_copy(const HashedEntry& entry, PyObject* copy, Py_hash_t* hash);

// Adds a key to an exact dict under a given hash. The user's __eq__ is called only if another key has the same hash.
void set_item(PyObject* dict, const Ref& key, const Ref& value, Py_hash_t hash);

// Makes `copy`, an empty set or frozenset, equal in content, hashes and order of iteration to `source`.
void copy_set_table(PyObject* source, PyObject* copy);
// Replaces the keys of a set, under the same hashes. `keys` has one for each key, in the order of entries_of_set().
void replace_set_keys(PyObject* set, const std::vector<Ref>& keys);

}  // namespace fastload
