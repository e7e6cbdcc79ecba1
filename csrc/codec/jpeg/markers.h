// Reads the marker segments of a JPEG file: tables, frame header, scan headers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/span.h"
#include "base/status.h"
#include "codec/decoder.h"
#include "codec/jpeg/app_segments.h"

namespace fastload::jpeg {

// The second bytes of markers (T.81 B.1.1.3).
namespace marker {
constexpr std::uint8_t kSof0 = 0xC0;
constexpr std::uint8_t kSof2 = 0xC2;
constexpr std::uint8_t kDht = 0xC4;
constexpr std::uint8_t kEoi = 0xD9;
constexpr std::uint8_t kSos = 0xDA;
constexpr std::uint8_t kDqt = 0xDB;
constexpr std::uint8_t kDri = 0xDD;
constexpr std::uint8_t kApp0 = 0xE0;
constexpr std::uint8_t kApp15 = 0xEF;
constexpr std::uint8_t kCom = 0xFE;
}  // namespace marker

constexpr std::size_t as_size(std::int32_t value) noexcept { return static_cast<std::size_t>(value); }

constexpr int kMaxComponents = 3;
constexpr int kTableSlots = 4;
// libjpeg's limit for an interleaved MCU (T.81 B.2.3).
constexpr int kMaxBlocksPerMcu = 10;

// A DHT segment's table as stored in the file (T.81 B.2.4.2). Only its length has been checked.
struct HuffmanSpec {
    bool is_defined = false;
    std::uint8_t code_counts[16] = {};  // number of codes of length i + 1
    std::uint8_t symbols[256] = {};     // in the order of their codes
};

// 64-byte aligned for the inverse DCT; zigzag order, see Note [zigzag blocks].
struct QuantizationTable {
    alignas(64) std::uint16_t values[64] = {};
    bool is_defined = false;
};

// The contents of DHT, DQT and DRI segments. Later segments replace earlier ones.
struct Tables {
    HuffmanSpec dc[kTableSlots];
    HuffmanSpec ac[kTableSlots];
    QuantizationTable quantization[kTableSlots];
    std::uint32_t restart_interval = 0;  // in MCUs; 0 for none
};

struct FrameComponent {
    std::uint8_t id = 0;
    std::uint8_t quantization_slot = 0;
    int horizontal = 1;  // sampling factors, 1..4
    int vertical = 1;
    // How often a sample is repeated horizontally and vertically in the image: largest factor / this factor.
    int horizontal_expansion = 1;
    int vertical_expansion = 1;
    // In samples, and in blocks rounded up: the size of a scan that has only this component.
    std::int32_t width = 0;
    std::int32_t height = 0;
    std::int32_t blocks_wide = 0;
    std::int32_t blocks_high = 0;
};

struct Frame {
    bool is_progressive = false;
    ImageSize size;
    int component_count = 0;
    FrameComponent components[kMaxComponents];
    int max_horizontal = 1;
    int max_vertical = 1;
    // The grid of interleaved MCUs, each 8 * max_horizontal by 8 * max_vertical pixels.
    std::int32_t mcus_wide = 0;
    std::int32_t mcus_high = 0;
};

struct ScanComponent {
    int component = 0;  // index in Frame::components
    int dc_slot = 0;
    int ac_slot = 0;
};

struct Scan {
    int component_count = 0;
    ScanComponent components[kMaxComponents];
    // The band of zigzag positions, both included, and the lowest bit that was known before and is known after the scan
    // (T.81 G.1.1): Ss, Se, Ah and Al. Ah is 0 for the first scan of a band. Sequential files have 0, 63, 0 and 0.
    int spectral_start = 0;
    int spectral_end = 63;
    int approximation_high = 0;
    int approximation_low = 0;
    std::size_t data_offset = 0;  // of the first entropy-coded byte

    bool is_refinement() const noexcept { return approximation_high != 0; }
    bool is_dc() const noexcept { return spectral_start == 0; }
};

enum class ColorModel : std::uint8_t { kGray, kYcc, kRgb };

struct Header {
    Frame frame;
    ColorModel color = ColorModel::kGray;
    AppMetadata app;  // points into the file
    Scan first_scan;
    Tables tables;  // at the first scan
};

struct Segment {
    std::uint8_t code = 0;   // the second byte of the marker
    ByteSpan payload;        // without the length
    std::size_t offset = 0;  // of the marker
    std::size_t end = 0;     // of the byte after the segment
};

// The segment whose marker is at `offset`. EOI has no payload.
Status read_segment(ByteSpan file, std::size_t offset, Segment* segment) noexcept;

// Reads everything up to and including the first SOS. Accepts only headers that both Pillow's own parser and libjpeg
// accept without an exception, an error or a warning; see Note [two parsers] in markers.cpp. `header` is meaningless
// unless the result is kOk. Never reads outside `file`.
Status read_header_segments(ByteSpan file, const DecodeLimits& limits, Header* header) noexcept;

// Derives the grids of a frame from its size and its components' sampling factors. Fails if libjpeg or this decoder
// does not take these factors. `offset` is their position in the file.
Status complete_frame(const DecodeLimits& limits, std::uint64_t offset, Frame* frame) noexcept;

// True if read_header_segments() might return another status for a longer file.
bool is_cut_short(const Status& status) noexcept;

// Reads on from the marker at *offset, after the data of a scan, and applies table segments to `tables`. At the next
// SOS fills `scan` and sets *is_end to false; at EOI sets it to true. *offset is then the position after the segment.
// Segments other than DHT, DQT, DRI, COM and APPn are irregular here.
Status read_segments_between_scans(ByteSpan file, std::size_t* offset, const Frame& frame, Tables* tables, Scan* scan,
                                   bool* is_end) noexcept;

}  // namespace fastload::jpeg
