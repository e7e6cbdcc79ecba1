// The files of a dataset by number, in whatever compact form their names are held.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/span.h"

namespace fastload {

// Where a name is put together; longer ones cannot be in an index. The system opens half of it at most (PATH_MAX).
using PathBuffer = std::array<std::uint8_t, 8192>;

// Immutable after construction and shared by all threads.
class SampleIndex {
  public:
    SampleIndex() = default;
    SampleIndex(const SampleIndex&) = delete;  // threads hold it by shared_ptr
    SampleIndex& operator=(const SampleIndex&) = delete;
    virtual ~SampleIndex() = default;

    virtual std::int64_t num_samples() const noexcept = 0;

    // The path of a sample in [0, num_samples()), not terminated by NUL. It may lie in *buffer, and is then gone with
    // the buffer's next use.
    virtual ByteSpan path(std::int64_t sample_index, PathBuffer* buffer) const noexcept = 0;
};

}  // namespace fastload
