// The handling of FF in unstuffing. How the bytes up to the next FF are found and copied differs between variants.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/span.h"
#include "kernels/unstuff.h"

namespace fastload {

// copy_run(from, end, to) copies the bytes before the first FF of [from, end), or all of them if there is none, and
// returns their number. It may write kUnstuffSlackBytes after them. Inlined, so that it can be used in a target region.
template <typename CopyRun>
inline __attribute__((always_inline)) UnstuffedScan unstuff_with(const CopyRun& copy_run, ByteSpan source,
                                                                 std::uint8_t* clean,
                                                                 Span<std::uint32_t> restart_offsets) noexcept {
    UnstuffedScan scan;
    const std::uint8_t* next = source.begin();
    const std::uint8_t* const end = source.end();
    while (next != end) {
        const std::size_t run = copy_run(next, end, clean + scan.clean_bytes);
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

}  // namespace fastload
