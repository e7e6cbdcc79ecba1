#include <cstdint>
#include <cstring>

#include "kernels/unstuff_loop.h"

namespace fastload {

UnstuffedScan unstuff_scalar(ByteSpan source, std::uint8_t* clean, Span<std::uint32_t> restart_offsets) noexcept {
    const auto copy_run = [](const std::uint8_t* from, const std::uint8_t* end, std::uint8_t* to) noexcept {
        const auto remaining = static_cast<std::size_t>(end - from);
        const auto* found = static_cast<const std::uint8_t*>(std::memchr(from, 0xFF, remaining));
        const std::size_t run = found == nullptr ? remaining : static_cast<std::size_t>(found - from);
        std::memcpy(to, from, run);
        return run;
    };
    return unstuff_with(copy_run, source, clean, restart_offsets);
}

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
