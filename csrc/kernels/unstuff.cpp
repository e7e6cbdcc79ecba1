#include "kernels/unstuff.h"

#include <cstring>

#if defined(__SSE2__)
#include "kernels/unstuff_sse2.h"
#endif

namespace fastload {

#if !defined(__SSE2__)
// Copies the bytes before the first FF, or all, and returns their number.
static std::size_t copy_run(ByteSpan from, std::uint8_t* to) noexcept {
    const auto* const found = static_cast<const std::uint8_t*>(std::memchr(from.data(), 0xFF, from.size()));
    const std::size_t run = found == nullptr ? from.size() : static_cast<std::size_t>(found - from.data());
    std::memcpy(to, from.data(), run);
    return run;
}
#endif

UnstuffedScan unstuff(ByteSpan source, std::uint8_t* clean, Span<std::uint32_t> restart_offsets) noexcept {
    UnstuffedScan scan;
    const std::uint8_t* next = source.begin();
    const std::uint8_t* const end = source.end();
    while (next != end) {
        const std::size_t run = copy_run({next, static_cast<std::size_t>(end - next)}, clean + scan.clean_bytes);
        scan.clean_bytes += run;
        next += run;
        if (end - next < 2) break;  // no FF left, or one that is the last byte
        const std::uint8_t code = next[1];
        if (code == 0x00) {
            clean[scan.clean_bytes++] = 0xFF;
        } else if (code >= 0xD0 && code <= 0xD7) {
            scan.end = ScanEnd::kRestartOutOfOrder;
            if (code - 0xD0U != (scan.restart_count & 7U)) break;
            scan.end = ScanEnd::kTooManyRestarts;
            if (scan.restart_count == restart_offsets.size()) break;
            scan.end = ScanEnd::kDataEnd;
            restart_offsets[scan.restart_count++] = static_cast<std::uint32_t>(scan.clean_bytes);
        } else {
            scan.end = code == 0xFF ? ScanEnd::kFillBytes : ScanEnd::kMarker;
            break;
        }
        next += 2;
    }
    scan.source_bytes = static_cast<std::size_t>(next - source.begin());
    return scan;
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
