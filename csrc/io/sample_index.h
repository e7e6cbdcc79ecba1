// The files of a dataset by number, in whichever compact form holds their names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/span.h"

namespace fastload {

// The buffer in which a path is put together; longer paths cannot be in an index. The system opens at most half of it
// (PATH_MAX).
using PathBuffer = std::array<std::uint8_t, 8192>;

// Immutable after construction and shared by all threads.
class SampleIndex {
  public:
    SampleIndex() = default;
    SampleIndex(const SampleIndex&) = delete;  // threads hold it by shared_ptr
    SampleIndex& operator=(const SampleIndex&) = delete;
    virtual ~SampleIndex() = default;

    virtual std::int64_t num_samples() const noexcept = 0;

    // The path of a sample in [0, num_samples()), not terminated by NUL. It may lie in *buffer, and is then valid until
    // the buffer's next use.
    virtual ByteSpan path(std::int64_t sample_index, PathBuffer* buffer) const noexcept = 0;
};

}  // namespace fastload
