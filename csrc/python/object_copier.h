// Copies what a fork would give a process of its own: everything reachable from some objects, with one memo.
#pragma once

#include <Python.h>

#include <deque>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "python/object_kinds.h"
#include "python/ref.h"
#include "python/stored_hashes.h"

namespace fastload {

struct CopyLimits {
    // After this many objects, the elements of containers with more than `max_elements` are shared.
    std::size_t max_objects = 100'000;
    std::size_t max_elements = 10'000;
};

// The result of copying some objects.
struct CopiedObjects {
    Ref copies;  // a tuple, in the order of the roots
    // A list with a weak reference to each copy whose class has a __del__, or the copy itself if it takes none.
    Ref finalized;
    // A list of (object, reason) for each shared object that could change.
    Ref shared;
};

// Makes one worker's copies. Each object is copied once, so that what is one object stays one, in cycles as well. The
// depth of the objects does not matter. No method is called that a class statement of the user's has made; the
// exceptions stand at stored_hashes.h and at copy.deepcopy(), by which some makers copy; and NumPy calls
// __array_finalize__ of classes derived from its arrays.
//
// Note [shells]
// Most copies are made in two steps: an empty shell, which others can refer to at once, and later its content. Objects
// that cannot change once made (tuples, methods, weak references) wait for the shells of their parts, and are shared if
// all their parts are. So no two steps wait for each other. Copied keys are put in their dicts and sets at the end, as
// the user's __hash__ and __eq__ may ask for their content.
//
// A maker of ObjectKinds returns a tuple (copy, parts, finish):
//   (copy, (), None)       the copy is done; the source itself means that it is shared
//   (shell, parts, finish) finish(copies) is called once each of `parts`, a tuple, has its copy or shell
//   (None, parts, finish)  finish(copies) returns the copy
class ObjectCopier {
  public:
    // `context` is handed on to makers. Both must live as long as this object.
    ObjectCopier(ObjectKinds& kinds, PyObject* context, const CopyLimits& limits);

    // Call once, with the GIL. Throws PythonError, and what the standard library throws when memory ends.
    CopiedObjects copy(PyObject* roots);

  private:
    enum class Outcome {
        kDone,
        kWaiting,  // for parts: run_parts() makes it
        kLater,    // it depends on a weak reference to an object that may yet be copied, or on keys without content
    };
    enum class State { kDone, kInProgress, kLater };
    struct Memo {
        Ref source;
        Ref copy;
        State state;
    };
    // A copy, or the content of one, that waits for the parts of `source`.
    struct Parts {
        TypeEntry* entry;
        Ref source;
        Ref parts;   // a tuple
        Ref copies;  // a tuple, empty from `position` on
        Ref finish;  // of a maker
        Py_ssize_t position = 0;
        bool is_later = false;
    };
    // A shell that is to be filled.
    struct Fill {
        TypeEntry* entry;
        Ref source;
        Ref shell;
        Ref parts;   // of a maker
        Ref finish;  // of a maker
        bool is_of_attributes = false;
    };

    // ---- the walk ----
    // Fills `copy` with a borrowed reference to the copy or shell of `object`, if there is one yet.
    Outcome resolve(PyObject* object, PyObject** copy);
    // The same, but never kWaiting.
    Outcome resolve_fully(PyObject* object, PyObject** copy);
    Outcome begin(PyObject* object, PyObject** copy);
    Outcome begin_weak(TypeEntry& entry, PyObject* weak, PyObject** copy);
    Outcome begin_by_python(TypeEntry& entry, PyObject* object, PyObject** copy);
    Outcome wait_for(TypeEntry& entry, PyObject* object, Ref parts, Ref finish = {});
    void run_parts(std::size_t depth);
    void finish_parts(Parts& parts);
    void run_fills();
    // Returns whether all parts were there; else call it again at the end.
    bool fill(Fill& fill);
    PyObject* share(PyObject* object, PyObject* reason);
    PyObject* remember(PyObject* object, Ref copy);
    // Notes `copy`, still empty, for `object`, an instance of `entry`.
    PyObject* add_shell(TypeEntry& entry, PyObject* object, const Ref& copy);
    // Estimates the number of copies for a container's elements and the contents of lists, dicts and instances among
    // them. `next_element` returns the elements, borrowed, and null after the last.
    template <typename NextElement>
    std::size_t count_copies(const NextElement& next_element);
    // Counts the contents of `object` that are neither in the memo nor in `seen`, and adds them to `seen`.
    std::size_t count_held(PyObject* object, std::unordered_set<PyObject*>& seen);
    bool shares_elements(PyObject* container, std::size_t num_elements, std::size_t num_copies);
    PyObject* memo_or_self(PyObject* object) const;

    // ---- kinds: object_shells.cpp makes shells, object_parts.cpp fills them ----
    Ref new_shell(TypeEntry& entry, PyObject* object);
    Ref new_function(PyObject* function);
    bool is_changeable_function(PyObject* function, int depth = 0);
    bool may_be_changed(PyObject* value, int depth);
    bool is_sentinel(TypeEntry& entry, PyObject* instance);
    Ref parts_of(const TypeEntry& entry, PyObject* object);
    Ref copy_of_parts(TypeEntry& entry, PyObject* source, PyObject* copies);
    bool fill_list(Fill& fill);
    bool fill_dict(Fill& fill);
    bool fill_dict_values(PyObject* source, PyObject* shell);
    bool rebuild_dict(const Fill& fill);
    bool fill_set(Fill& fill);
    bool fill_deque(Fill& fill);
    bool fill_function(Fill& fill);
    bool fill_by_python(Fill& fill);
    bool fill_attributes(Fill& fill);
    // The copied entries with their hashes; false where one is not there yet.
    bool resolve_entries(std::vector<HashedEntry>& entries, bool shares, bool* keeps_hashes);

    ObjectKinds& kinds_;
    PyObject* context_;
    CopyLimits limits_;
    std::unordered_map<PyObject*, Memo> memo_;
    std::vector<Parts> waiting_;
    std::deque<Fill> fills_;
    std::vector<Fill> late_fills_;
    std::size_t num_copied_ = 0;
    bool is_final_ = false;  // no more referents of weak references will be copied
    Ref empty_tuple_;
    Ref finalized_;
    Ref shared_;
};

// Makes __del__ of the objects in the list `finalized` of CopiedObjects do nothing. Objects without support for the
// garbage collector (no __dict__ and no slots) keep theirs.
void end_without_finalizers(PyObject* finalized);

}  // namespace fastload
