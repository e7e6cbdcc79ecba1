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

}  // namespace fastload
