// Objects that forked workers can share once nothing writes their reference counts any more.
#pragma once

#include <Python.h>

#include <vector>

#include "python/object_list.h"
#include "python/ref.h"

namespace fastload {

enum class SharableKind {
    kLeaf,       // refers to nothing whose count reading it writes
    kContainer,  // sharable together with the objects it refers to
    kPassedBy,   // left as it is: code, modules, tensors; one object for many samples, or with a count of its own
    kOther,      // its end may matter to the program (files, locks, finalizers, weak references), or it is not known
};

// Types by which objects are told apart. Calls no code of the user's, apart from the C functions that the collector
// calls, too.
class SharableTypes {
  public:
    // Knows the types of the modules that are imported by now. Throws PythonError when memory runs out.
    SharableTypes();

    SharableKind kind_of(PyObject* object) const noexcept;
    // Returns how many elements a container has; -1 for other objects. A dict has half as many as parts.
    Py_ssize_t length_of(PyObject* object) const noexcept;
    // Pushes the objects to which `object` refers, borrowed, until `parts` takes no more. Some come more than once.
    void list_parts(PyObject* object, ObjectList& parts) const noexcept;
    // Pushes the objects through which a search for containers goes on from `object`.
    void list_way_on(PyObject* object, ObjectList& way) const noexcept;

  private:
    bool is_array(PyObject* object) const noexcept { return Py_TYPE(object) == as_type(array_); }
    SharableKind kind_of_builtin(const PyTypeObject* type) const noexcept;
    SharableKind kind_of_array(PyObject* array) const noexcept;
    SharableKind kind_of_instance(PyObject* instance) const noexcept;
    static PyTypeObject* as_type(const Ref& type) noexcept { return reinterpret_cast<PyTypeObject*>(type.get()); }

    Ref plain_class_;  // made by a class statement: such classes share their functions in C
    Ref array_;        // numpy.ndarray; none unless NumPy is imported, and the same for those below
    Ref array_scalar_;
    Ref tensor_;
    Ref element_;  // of xml.etree
    Ref deque_;
    Ref default_dict_;
    std::vector<Ref> more_leaves_;
};

}  // namespace fastload
