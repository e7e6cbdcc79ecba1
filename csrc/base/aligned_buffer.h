// Scratch memory of one thread: grows to the largest need and stays there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"

namespace fastload {

// Owns 64-byte aligned, uninitialised bytes. Not thread-safe; one thread owns it.
class AlignedBuffer {
  public:
    static constexpr std::size_t kAlignment = 64;

    // Makes at least `size` bytes available at data(). Old contents are lost when it grows, and it never shrinks.
    // Returns kOutOfMemory and leaves the old buffer in place when the system has no memory.
    Status reserve(std::size_t size) noexcept;

    std::uint8_t* data() const noexcept { return bytes_.get(); }
    std::size_t capacity() const noexcept { return capacity_; }

  private:
    struct AlignedDelete {
        void operator()(std::uint8_t* bytes) const noexcept;
    };
    std::unique_ptr<std::uint8_t[], AlignedDelete> bytes_;
    std::size_t capacity_ = 0;
};

}  // namespace fastload
