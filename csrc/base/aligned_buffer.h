// Scratch memory of one thread. It grows to the largest need, and large memory is released when it is no longer needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/mapping.h"
#include "base/status.h"

namespace fastload {

// Which scratch memory a thread releases.
enum class ScratchRule : std::uint8_t {
    kUnneeded,  // large memory of which the last samples needed only a small part
    kLarge,     // all large memory
};

// Owns 64-byte aligned bytes, uninitialised. Not thread-safe: one thread owns it.
class AlignedBuffer {
  public:
    static constexpr std::size_t kAlignment = 64;
    // Memory up to this size is never released: enough for photos of a few megapixels.
    static constexpr std::size_t kMaxKeptBytes = std::size_t{4} << 20;

    // Makes at least `size` bytes available at data(). The old contents are lost when it grows. Returns kOutOfMemory
    // and keeps the old buffer if the system has no memory.
    Status reserve(std::size_t size) noexcept;

    // Call between two samples, with kUnneeded after each one. Memory of at most kMaxKeptBytes stays.
    void release(ScratchRule rule) noexcept;

    std::uint8_t* data() const noexcept { return is_mapped() ? mapping_.data() : bytes_.get(); }
    std::size_t capacity() const noexcept { return capacity_; }

  private:
    struct AlignedDelete {
        void operator()(std::uint8_t* bytes) const noexcept;
    };
    bool is_mapped() const noexcept { return mapping_.data() != nullptr; }

    std::unique_ptr<std::uint8_t[], AlignedDelete> bytes_;
    Mapping mapping_;  // for large memory, which an allocator might keep after it is freed
    std::size_t capacity_ = 0;
    std::size_t needed_ = 0;          // largest need since the last release()
    std::uint32_t num_unneeded_ = 0;  // samples in a row that needed a small part
};

}  // namespace fastload
