#include <cstring>

#include "kernels/stream_copy.h"

namespace fastload {

void stream_copy_scalar(std::uint8_t* to, const std::uint8_t* from, std::size_t size) noexcept {
    if (size > 0) std::memcpy(to, from, size);
}

}  // namespace fastload
