// Copies large memory without displacing what the processor's caches hold.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fastload {

// Copies `size` bytes; the memories do not overlap. For sizes above the caches: a smaller copy is read back from memory
// instead of a cache. All of it is visible to other threads that wait for this one.
using StreamCopyFunction = void(std::uint8_t* to, const std::uint8_t* from, std::size_t size) noexcept;

StreamCopyFunction stream_copy_scalar, stream_copy_avx2;

}  // namespace fastload
