// The scan form: one sample of a batch as a part of its file's own bytes, which a device decodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/host_device.h"

namespace fastload {

// Note [scan form]
// A sample in scan form is a ScanHead, quantization tables (uint16[64] in zigzag order, one for each component),
// Huffman tables, places and, from a multiple of 16 bytes on, the data of the scan without stuffing: from the first
// byte that a place needs, rounded down to a multiple of 16, to the last one, and then at least kScanPaddingBytes
// zeros. All numbers are in the order of bytes of the machine, which is the device's.
//
// A place is a position in the data where decoding can begin. A thread decodes from it to the place's end column; what
// lies to the left and to the right of the window is read and dropped. So the threads of a sample need nothing of each
// other, and the order in which they run changes no byte.
//
// An index of other data, or a damaged one, is a fault of the piece that ends where the wrong place is: position and
// predictions must be the same there. As on the host, a row of which no place is passed in the window goes on to the
// next one if the index is dense, and the window's last row always does: Note [landing].
//
// The host makes the head from a file that its own decoder has accepted, and is_valid_scan() checks it before it is
// copied. Tables, places and data are not trusted: whatever they hold, a device reads and writes inside of the sample
// and its scratch memory alone, and each block ends after at most 64 symbols. Pieces of a wrong sample may overlap;
// then its coefficients are any numbers.
constexpr std::uint32_t kScanRevision = 1;
constexpr int kScanComponents = 3;
constexpr int kScanHuffmanTables = 6;
constexpr int kScanBlocksPerMcu = 10;
constexpr std::size_t kScanPaddingBytes = 64;
// The largest side of an image or a result, in pixels.
constexpr std::int32_t kScanMaxSide = 1 << 17;

enum class ScanColor : std::uint8_t { kGray, kYcc, kRgb };
enum class ScanUpsampling : std::uint8_t { kNone, kH2v1, kH1v2, kH2v2, kReplicate };
// Pillow's filters whose weights are made of sums, products and divisions.
enum class ScanFilter : std::uint8_t { kBox, kBilinear, kBicubic };

struct WireComponent {
    std::uint8_t horizontal = 1;  // blocks in an MCU
    std::uint8_t vertical = 1;
    std::uint8_t expand_x = 1;  // how often a sample is repeated in the image
    std::uint8_t expand_y = 1;
    ScanUpsampling upsampling = ScanUpsampling::kNone;
    std::uint8_t dc_table = 0;  // numbers of Huffman tables of the sample
    std::uint8_t ac_table = 0;
    std::uint8_t unused = 0;
    std::int32_t width = 0;  // real samples of the whole component
    std::int32_t height = 0;
    std::uint32_t first_block = 0;  // of the window: blocks of the components before this one
};

// One axis of a resize: `from` pixels of the image that is resized, of which [begin, end) become `to`. The results
// [first, first + count) are kept. They are made of the pixels from `origin` on, and have at most `taps` weights each;
// 0: the axis stays.
struct ScanAxis {
    std::int32_t from = 0;
    std::int32_t to = 0;
    float begin = 0.0F;
    float end = 0.0F;
    std::int32_t first = 0;
    std::int32_t count = 0;
    std::int32_t origin = 0;
    std::int32_t taps = 0;
};

// The result [height, width, 3] is zero except for the resized pixels, whose top left corner is at (left, top).
struct ScanPlacement {
    std::int32_t width = 0;
    std::int32_t height = 0;
    std::int32_t left = 0;
    std::int32_t top = 0;
};

struct ScanHead {
    std::uint32_t revision = kScanRevision;
    std::uint32_t bytes = 0;  // of the sample on the wire, a multiple of 16
    std::uint32_t num_places = 0;
    std::uint32_t data_bytes = 0;  // without the zeros after them
    std::uint8_t num_components = 0;
    std::uint8_t num_huffman_tables = 0;
    std::uint8_t blocks_per_mcu = 0;
    ScanColor color = ScanColor::kGray;
    ScanFilter filter = ScanFilter::kBilinear;
    std::uint8_t is_vertical_first = 0;  // only read if there are both passes
    std::uint8_t is_mirrored = 0;
    std::uint8_t unused = 0;
    // The window: MCU columns [left, right), rows [top, bottom).
    std::int32_t left = 0;
    std::int32_t right = 0;
    std::int32_t top = 0;
    std::int32_t bottom = 0;
    // The pixels that are resized.
    std::int32_t region_left = 0;
    std::int32_t region_top = 0;
    std::int32_t region_width = 0;
    std::int32_t region_height = 0;
    ScanAxis x;
    ScanAxis y;
    ScanPlacement placement;
    WireComponent components[kScanComponents];
    std::uint8_t reserved[60] = {};
};

// A DHT segment (T.81 B.2.4.2).
struct ScanHuffmanTable {
    std::uint8_t counts[16];  // of codes of length i + 1
    std::uint8_t symbols[256];
};

constexpr std::uint32_t kNoScanPosition = UINT32_MAX;

struct ScanPlace {
    std::uint32_t position_bits;  // from the first byte of the data
    std::uint32_t end_bits;       // where the next place is, or kNoScanPosition if the end is no place
    std::int16_t predictions[kScanComponents];
    std::int16_t end_predictions[kScanComponents];  // of the next place
    std::uint16_t row;                              // of MCUs
    std::uint16_t first;                            // MCU columns [first, end)
    std::uint16_t end;
    std::uint16_t unused;
};

static_assert(sizeof(ScanHead) == 256 && std::is_trivially_copyable_v<ScanHead>);
static_assert(sizeof(WireComponent) == 20 && sizeof(ScanAxis) == 32 && sizeof(ScanPlacement) == 16);
static_assert(sizeof(ScanHuffmanTable) == 272 && sizeof(ScanPlace) == 28);

// Positions of the parts, in bytes from the head.
struct ScanLayout {
    std::uint64_t huffman;
    std::uint64_t places;
    std::uint64_t data;  // a multiple of 16
    std::uint64_t end;   // likewise

    FASTLOAD_HOST_DEVICE explicit ScanLayout(const ScanHead& head)
        : huffman(sizeof(ScanHead) + std::uint64_t{128} * head.num_components),
          places(huffman + sizeof(ScanHuffmanTable) * std::uint64_t{head.num_huffman_tables}),
          data((places + sizeof(ScanPlace) * std::uint64_t{head.num_places} + 15) / 16 * 16),
          end((data + head.data_bytes + kScanPaddingBytes + 15) / 16 * 16) {}
};

FASTLOAD_HOST_DEVICE inline bool has_a_pass(const ScanHead& head) { return head.x.taps != 0 || head.y.taps != 0; }
FASTLOAD_HOST_DEVICE inline bool has_two_passes(const ScanHead& head) { return head.x.taps != 0 && head.y.taps != 0; }

FASTLOAD_HOST_DEVICE inline std::int32_t blocks_wide(const ScanHead& head, const WireComponent& component) {
    return (head.right - head.left) * component.horizontal;
}
FASTLOAD_HOST_DEVICE inline std::int32_t blocks_high(const ScanHead& head, const WireComponent& component) {
    return (head.bottom - head.top) * component.vertical;
}
// MCUs and blocks of the window.
FASTLOAD_HOST_DEVICE inline std::uint64_t num_scan_mcus(const ScanHead& head) {
    return static_cast<std::uint64_t>(head.right - head.left) * static_cast<std::uint64_t>(head.bottom - head.top);
}
FASTLOAD_HOST_DEVICE inline std::uint64_t num_scan_blocks(const ScanHead& head) {
    return num_scan_mcus(head) * head.blocks_per_mcu;
}
// Bytes of the result.
FASTLOAD_HOST_DEVICE inline std::uint64_t num_scan_pixel_bytes(const ScanHead& head) {
    return std::uint64_t{3} * static_cast<std::uint64_t>(head.placement.width) *
           static_cast<std::uint64_t>(head.placement.height);
}

// Positions of a sample's scratch memory, in bytes, each a multiple of 16.
struct ScanScratch {
    std::uint64_t samples;  // after the coefficients, int16[64] for each block in zigzag order, which are zero at first
    std::uint64_t region;   // uint8[3, region_height, region_width]
    std::uint64_t between;  // the result of the first pass, uint8[3, height, width]
    std::uint64_t resized;  // uint8[3, y.count, x.count]
    std::uint64_t weights_x;  // int32: the first pixel of each result, then their numbers, then their weights
    std::uint64_t weights_y;
    std::uint64_t end;

    FASTLOAD_HOST_DEVICE explicit ScanScratch(const ScanHead& head) {
        const std::uint64_t blocks = num_scan_blocks(head);
        const auto width = static_cast<std::uint64_t>(head.region_width);
        const auto height = static_cast<std::uint64_t>(head.region_height);
        const auto new_width = static_cast<std::uint64_t>(head.x.count);
        const auto new_height = static_cast<std::uint64_t>(head.y.count);
        const std::uint64_t between_pixels = head.is_vertical_first != 0 ? width * new_height : new_width * height;
        samples = 128 * blocks;
        region = samples + 64 * blocks;
        between = region + rounded(3 * width * height);
        resized = between + (has_two_passes(head) ? rounded(3 * between_pixels) : 0);
        weights_x = resized + (has_a_pass(head) ? rounded(3 * new_width * new_height) : 0);
        weights_y = weights_x + weight_bytes(head.x);
        end = weights_y + weight_bytes(head.y);
    }

  private:
    FASTLOAD_HOST_DEVICE static std::uint64_t rounded(std::uint64_t bytes) { return (bytes + 15) / 16 * 16; }
    FASTLOAD_HOST_DEVICE static std::uint64_t weight_bytes(const ScanAxis& axis) {
        if (axis.taps == 0) return 0;
        return rounded(4 * static_cast<std::uint64_t>(axis.count) * (2 + static_cast<std::uint64_t>(axis.taps)));
    }
};

// Whether a device may be given the sample of this head, whose memory has `bytes`: its sizes belong together, and all
// that threads compute from them lies inside of its parts. Tables, places and data are not looked at.
bool is_valid_scan(const ScanHead& head, std::size_t bytes) noexcept;

}  // namespace fastload
