#include "device/scan_wire.h"

#include <algorithm>

namespace fastload {
namespace {

// More data or scratch memory than this is for the host. Offsets in both fit a signed 32-bit number.
constexpr std::uint64_t kMaxDataBytes = std::uint64_t{1} << 26;
constexpr std::uint64_t kMaxScratchBytes = INT32_MAX;
constexpr std::uint64_t kMaxPixelBytes = INT32_MAX;
constexpr std::int32_t kMaxMcus = 8192;  // of eight pixels in 65,535, the most that a frame has
constexpr int kMaxFactor = 4;

bool is_in(std::int64_t value, std::int64_t first, std::int64_t last) { return value >= first && value <= last; }

bool has_upsampling(const WireComponent& component) {
    const auto expands = [&](int x, int y) { return component.expand_x == x && component.expand_y == y; };
    switch (component.upsampling) {
        case ScanUpsampling::kNone:
            return expands(1, 1);
        case ScanUpsampling::kH2v1:
            return expands(2, 1);
        case ScanUpsampling::kH1v2:
            return expands(1, 2);
        case ScanUpsampling::kH2v2:
            return expands(2, 2);
        case ScanUpsampling::kReplicate:
            return is_in(component.expand_x, 1, kMaxFactor) && is_in(component.expand_y, 1, kMaxFactor);
    }
    return false;
}

// Whether all samples that the pixels [first, first + count) are made of, and `margin` more on each side, lie in the
// MCUs [begin, end) of one axis.
bool holds_samples(std::int32_t first, std::int32_t count, int expansion, std::int32_t margin, std::int32_t size,
                   std::int32_t begin, std::int32_t end, int blocks) {
    const auto sample = [&](std::int32_t pixel, std::int32_t beside) {
        return std::clamp(pixel / expansion + beside, 0, size - 1);
    };
    return sample(first, -margin) >= begin * 8 * blocks && sample(first + count - 1, margin) < end * 8 * blocks;
}

bool is_valid_component(const ScanHead& head, const WireComponent& component) {
    const bool has_tables =
        component.dc_table < head.num_huffman_tables && component.ac_table < head.num_huffman_tables;
    return has_tables && is_in(component.horizontal, 1, kMaxFactor) && is_in(component.vertical, 1, kMaxFactor) &&
           has_upsampling(component) && is_in(component.width, 1, kScanMaxSide) &&
           is_in(component.height, 1, kScanMaxSide);
}

bool are_valid_components(const ScanHead& head) {
    const bool is_gray = head.color == ScanColor::kGray;
    if (head.color > ScanColor::kRgb || head.num_components != (is_gray ? 1 : 3)) return false;
    const std::uint64_t mcus = num_scan_mcus(head);
    std::uint64_t blocks = 0;
    for (int i = 0; i < head.num_components; ++i) {
        const WireComponent& component = head.components[i];
        if (!is_valid_component(head, component) || component.first_block != blocks * mcus) return false;
        blocks += std::uint64_t{component.horizontal} * component.vertical;
    }
    return blocks == head.blocks_per_mcu && blocks <= kScanBlocksPerMcu;
}

bool has_region(const ScanHead& head) {
    for (int i = 0; i < head.num_components; ++i) {
        const WireComponent& component = head.components[i];
        const bool is_filtered = component.upsampling != ScanUpsampling::kReplicate;
        const std::int32_t margin_x = is_filtered && component.expand_x == 2 ? 1 : 0;
        const std::int32_t margin_y = is_filtered && component.expand_y == 2 ? 1 : 0;
        if (!holds_samples(head.region_left, head.region_width, component.expand_x, margin_x, component.width,
                           head.left, head.right, component.horizontal) ||
            !holds_samples(head.region_top, head.region_height, component.expand_y, margin_y, component.height,
                           head.top, head.bottom, component.vertical)) {
            return false;
        }
    }
    return true;
}

bool is_valid_axis(const ScanAxis& axis, std::int32_t region) {
    if (axis.taps == 0) return axis.count == region;
    const bool has_sides = is_in(axis.from, 1, kScanMaxSide) && is_in(axis.to, 1, kScanMaxSide);
    if (!has_sides || !is_in(axis.taps, 1, 4 * std::int64_t{axis.from} + 16)) return false;
    const bool has_box = axis.begin >= 0.0F && axis.begin < axis.end && axis.end <= static_cast<float>(axis.from);
    return has_box && is_in(axis.count, 1, axis.to) && is_in(axis.first, 0, axis.to - axis.count) &&
           is_in(region, 1, axis.from) && is_in(axis.origin, 0, axis.from - region);
}

bool is_valid_placement(const ScanHead& head) {
    const ScanPlacement& placement = head.placement;
    const bool has_sides =
        is_in(placement.width, head.x.count, kScanMaxSide) && is_in(placement.height, head.y.count, kScanMaxSide);
    return has_sides && is_in(placement.left, 0, placement.width - head.x.count) &&
           is_in(placement.top, 0, placement.height - head.y.count) && num_scan_pixel_bytes(head) <= kMaxPixelBytes;
}

}  // namespace

bool is_valid_scan(const ScanHead& head, std::size_t bytes) noexcept {
    const bool has_window = is_in(head.right, 1, kMaxMcus) && is_in(head.left, 0, head.right - 1) &&
                            is_in(head.bottom, 1, kMaxMcus) && is_in(head.top, 0, head.bottom - 1);
    const bool has_sides = is_in(head.region_width, 1, kScanMaxSide) && is_in(head.region_height, 1, kScanMaxSide) &&
                           is_in(head.region_left, 0, kScanMaxSide) && is_in(head.region_top, 0, kScanMaxSide);
    if (head.revision != kScanRevision || !has_window || !has_sides || head.data_bytes > kMaxDataBytes ||
        !is_in(head.num_huffman_tables, 1, kScanHuffmanTables) || head.filter > ScanFilter::kBicubic) {
        return false;
    }
    return are_valid_components(head) && head.num_places <= num_scan_mcus(head) && has_region(head) &&
           is_valid_axis(head.x, head.region_width) && is_valid_axis(head.y, head.region_height) &&
           is_valid_placement(head) && ScanLayout(head).end == head.bytes && head.bytes == bytes &&
           ScanScratch(head).end <= kMaxScratchBytes;
}

}  // namespace fastload
