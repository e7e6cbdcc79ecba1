// The files of a list of (path, label) tuples, read from the list itself.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "io/sample_index.h"

namespace fastload {

// Note [listed samples]
// A list of samples is kept as it is instead of being copied into an arena. Threads read a path without the GIL:
// everything on the way to its bytes never changes while its owner lives. The list is a copy that nobody else has; a
// tuple keeps its items; and a str that is compact ASCII keeps its bytes behind its header, and its length in it.
// (Other strings would be read through fields that are written later, so a list that has any is not taken.)
class ListedIndex final : public SampleIndex {
  public:
    // True where `samples` consists of exact tuples of an exact str and an exact int that fits in 64 bits, and no path
    // has a character beyond ASCII or a NUL.
    static bool can_hold(const pybind11::list& samples);

    // `samples` passed can_hold, and nobody else can change it.
    explicit ListedIndex(pybind11::list samples);

    std::int64_t num_samples() const noexcept override { return num_samples_; }
    ByteSpan path(std::int64_t sample_index, PathBuffer* buffer) const noexcept override;

    // The label of a sample in [0, num_samples()). Call with the GIL.
    std::int64_t label(std::int64_t sample_index) const;

  private:
    PyObject* const list_;
    const std::int64_t num_samples_;
    std::shared_ptr<const void> owner_;
};

}  // namespace fastload
