#include <cstdint>
#include <cstring>

#include "kernels/find_marker.h"

namespace fastload {

std::size_t find_marker_scalar(ByteSpan bytes) noexcept {
    std::size_t place = 0;
    while (place < bytes.size()) {
        const void* const found = std::memchr(bytes.data() + place, 0xFF, bytes.size() - place);
        if (found == nullptr) break;
        place = static_cast<std::size_t>(static_cast<const std::uint8_t*>(found) - bytes.data());
        if (bytes.size() - place < 2) break;
        if (bytes[place + 1] != 0) return place;
        place += 2;
    }
    return bytes.size();
}

}  // namespace fastload
