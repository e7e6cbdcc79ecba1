// The large containers of a data set, and an estimate of what lies in them.
#pragma once

#include <Python.h>

#include "python/object_list.h"
#include "python/sharable_types.h"

namespace fastload {

// A container with this many elements holds samples; a smaller one is a part of the data set.
constexpr Py_ssize_t kLargeLength = 100;

// The result of a breadth-first search through attributes, small containers, closures and partials, which ends after
// ObjectSet::kMost objects. Takes milliseconds. References are borrowed: keep the roots, and the GIL.
class LargeContainers {
  public:
    // `roots` is a tuple.
    LargeContainers(const SharableTypes& types, PyObject* roots) noexcept;

    const ObjectList& found() const noexcept { return found_; }
    // Whether an object lies on the way from a root to a large container, or is one.
    bool has_passed(PyObject* object) const noexcept { return passed_.contains(object); }
    // Whether memory ran out, so that some are missing.
    bool is_short() const noexcept { return found_.is_short() || passed_.is_short(); }

  private:
    ObjectList found_;
    ObjectSet passed_;
};

struct DataSetEstimate {
    double num_sharable = 0;  // objects that forked workers can share
    double num_bytes = 0;     // memory that each worker copies when it reads everything and shares nothing
};

// Estimates from the lengths of the containers and of those inside them, and from their first kLargeLength elements.
// Calls no code of the user's. Throws std::bad_alloc.
DataSetEstimate estimate(const SharableTypes& types, const LargeContainers& containers);

// Whether the count of a living object is written when it is read, and not out of bounds.
inline bool has_plain_count(PyObject* object) noexcept {
    const Py_ssize_t count = Py_REFCNT(object);
    return count > 0 && count < Py_ssize_t{1} << 30;
}

}  // namespace fastload
