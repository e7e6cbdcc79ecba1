#include "codec/jpeg/file_check.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "codec/jpeg/scan_grid.h"

namespace fastload::jpeg {
namespace {

constexpr std::size_t kEoiBytes = 2;

// The position of the marker after the data that begin at `offset`.
Status find_end_of_data(FindMarkerFunction find_marker, ByteSpan file, std::size_t offset,
                        std::size_t* end_offset) noexcept {
    while (true) {
        const std::size_t at = offset + find_marker(file.subspan(offset, file.size() - offset));
        if (at == file.size()) return Status::irregular("the file ends inside a scan", at);
        const std::uint8_t code = file[at + 1];
        if (code == 0xFF) return Status::irregular("fill bytes in a scan", at);
        const bool is_restart = code >= 0xD0 && code <= 0xD7;
        if (!is_restart) {
            *end_offset = at;
            return Status::ok();
        }
        offset = at + 2;
    }
}

// The size of the largest difference. Sizes of differences are the symbols of a table.
int largest_size(const HuffmanSpec& table) noexcept {
    const int count = std::accumulate(table.code_counts, table.code_counts + 16, 0);
    return count == 0 ? 0 : *std::max_element(table.symbols, table.symbols + std::min(count, 256));
}

// True if a DC prediction of a progressive file may leave 32 bits.
Status check_predictions(const Frame& frame, const Scan& scan, const Tables& tables) noexcept {
    if (!frame.is_progressive || !scan.is_dc() || scan.is_refinement()) return Status::ok();
    std::uint64_t mcus = ScanGrid(frame, scan, McuWindow{}).mcu_count();
    if (tables.restart_interval != 0) mcus = std::min<std::uint64_t>(mcus, tables.restart_interval);
    for (int i = 0; i < scan.component_count; ++i) {
        const int blocks_per_mcu = BlocksOfMcu(frame, scan, i).count();
        const std::uint64_t largest = (std::uint64_t{1} << largest_size(tables.dc[scan.components[i].dc_slot])) - 1;
        if (mcus * static_cast<unsigned>(blocks_per_mcu) * largest > INT32_MAX) {
            return Status::irregular("DC predictions that may leave 32 bits", scan.data_offset);
        }
    }
    return Status::ok();
}

}  // namespace

Status ScanScript::accept(const Scan& scan, int number, const DecodeLimits& limits) noexcept {
    if (number == limits.max_scans) {
        return {StatusCode::kLimitExceeded, 0, scan.data_offset, "more scans than the limit"};
    }
    const int expected = scan.is_refinement() ? scan.approximation_high : kUnknown;
    for (int i = 0; i < scan.component_count; ++i) {
        Component& component = components_[scan.components[i].component];
        if (!scan.is_dc() && component.bits[0] == kUnknown) {
            return Status::irregular("an AC scan before the DC scan", scan.data_offset);
        }
        for (int k = scan.spectral_start; k <= scan.spectral_end; ++k) {
            if (component.bits[k] != expected) {
                return Status::irregular("a scan that does not continue those before", scan.data_offset);
            }
            component.bits[k] = static_cast<std::int8_t>(scan.approximation_low);
        }
    }
    return Status::ok();
}

bool ScanScript::is_complete(int component_count) const noexcept {
    for (int i = 0; i < component_count; ++i) {
        for (const std::int8_t bit : components_[i].bits) {
            if (bit != 0) return false;
        }
    }
    return true;
}

Status check_file(FindMarkerFunction find_marker, ByteSpan file, const Header& header, const DecodeLimits& limits,
                  DecodingTables* decoding, std::size_t* end_offset) noexcept {
    Tables tables;
    return for_each_scan(
        file, header, limits, decoding, &tables, end_offset,
        [&](const Scan& scan, std::size_t* end) {
            const Status status = check_predictions(header.frame, scan, tables);
            return status.is_ok() ? find_end_of_data(find_marker, file, scan.data_offset, end) : status;
        },
        [](const Scan&, int) { return Status::ok(); });
}

Status read_to_next_scan(ByteSpan file, std::size_t* offset, const Frame& frame, const ScanScript& script,
                         Tables* tables, Scan* scan, bool* is_end) noexcept {
    const std::size_t begin = *offset;
    const Status status = read_segments_between_scans(file, offset, frame, tables, scan, is_end);
    const bool is_complete = script.is_complete(frame.component_count);
    if (!frame.is_progressive && is_complete && !(status.is_ok() && *is_end && *offset == begin + kEoiBytes)) {
        return Status::irregular("the last scan is not followed by EOI", begin);
    }
    if (!status.is_ok() || !*is_end || is_complete) return status;
    return frame.is_progressive ? Status::unsupported("a progressive file that does not bring all bits", begin)
                                : Status::irregular("EOI before the last component's scan", begin);
}

}  // namespace fastload::jpeg
