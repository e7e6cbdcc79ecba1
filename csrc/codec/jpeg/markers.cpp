// Note [two parsers]
// A sample decoded by Pillow is parsed twice: by Python code up to the first SOS, and by libjpeg. The two differ in
// what they tolerate, and both may raise. This parser accepts only what both accept without a repair: a marker follows
// directly on the segment before it, lengths agree with the contents, every number is in range, and there is one frame
// header. The rest goes to the fallback; that is not an error of the file.
#include "codec/jpeg/markers.h"

#include <algorithm>
#include <cstring>

#include "codec/jpeg/app_segments.h"

namespace fastload::jpeg {
namespace {

constexpr const char* kEndsInHeader = "the file ends in its header";
constexpr const char* kReachesBehindEnd = "a segment reaches behind the end";

// libjpeg's limit for both sides.
constexpr std::int32_t kMaxSide = 65500;

std::uint32_t big16(const std::uint8_t* bytes) { return bytes[0] * 256U + bytes[1]; }

constexpr std::int32_t divide_up(std::int32_t value, std::int32_t divisor) { return (value + divisor - 1) / divisor; }

bool is_app_or_comment(std::uint8_t code) {
    return (code >= marker::kApp0 && code <= marker::kApp15) || code == marker::kCom;
}

Status read_dqt(const Segment& segment, Tables* tables) {
    const ByteSpan bytes = segment.payload;
    std::size_t at = 0;
    while (at != bytes.size()) {
        const unsigned precision = bytes[at] >> 4;
        const unsigned slot = bytes[at] & 15U;
        ++at;
        if (precision > 1 || slot >= kTableSlots) {
            return Status::irregular("a quantization table with a wrong number or precision", segment.offset);
        }
        const std::size_t value_bytes = precision + 1;
        if (bytes.size() - at < 64 * value_bytes) {
            return Status::irregular("a quantization table is cut short", segment.offset);
        }
        QuantizationTable& table = tables->quantization[slot];
        for (std::size_t i = 0; i < 64; ++i, at += value_bytes) {
            table.values[i] = static_cast<std::uint16_t>(precision == 0 ? bytes[at] : big16(bytes.data() + at));
        }
        table.is_defined = true;
    }
    return Status::ok();
}

Status read_dht(const Segment& segment, Tables* tables) {
    const ByteSpan bytes = segment.payload;
    std::size_t at = 0;
    while (at != bytes.size()) {
        if (bytes.size() - at < 17) return Status::irregular("a Huffman table is cut short", segment.offset);
        const unsigned table_class = bytes[at] >> 4;
        const unsigned slot = bytes[at] & 15U;
        if (table_class > 1 || slot >= kTableSlots) {
            return Status::irregular("a Huffman table with a wrong number or class", segment.offset);
        }
        HuffmanSpec& spec = table_class == 0 ? tables->dc[slot] : tables->ac[slot];
        std::memcpy(spec.code_counts, bytes.data() + at + 1, 16);
        at += 17;
        std::size_t symbol_count = 0;
        for (const std::uint8_t count : spec.code_counts) symbol_count += count;
        if (symbol_count > 256 || symbol_count > bytes.size() - at) {
            return Status::irregular("a Huffman table has more codes than symbols", segment.offset);
        }
        std::memset(spec.symbols, 0, sizeof(spec.symbols));
        std::memcpy(spec.symbols, bytes.data() + at, symbol_count);
        spec.is_defined = true;
        at += symbol_count;
    }
    return Status::ok();
}

Status read_dri(const Segment& segment, Tables* tables) {
    if (segment.payload.size() != 2) return Status::irregular("a restart interval of a wrong length", segment.offset);
    tables->restart_interval = big16(segment.payload.data());
    return Status::ok();
}

// The sampling ratios that reconstruction knows: 1x1, 2x1, 1x2, 2x2 and 4x1.
bool is_known_expansion(int horizontal, int vertical) {
    return (horizontal <= 2 && vertical <= 2) || (horizontal == 4 && vertical == 1);
}

Status check_size(ImageSize size, const DecodeLimits& limits, std::uint64_t offset) {
    if (size.width <= 0 || size.height <= 0) return Status::irregular("a side of 0", offset);
    if (size.width > kMaxSide || size.height > kMaxSide) return Status::irregular("a side above 65500", offset);
    const std::uint64_t pixel_count = static_cast<std::uint64_t>(size.width) * static_cast<std::uint64_t>(size.height);
    if (pixel_count > limits.max_pixels) {
        return {StatusCode::kLimitExceeded, 0, offset, "more pixels than the limit"};
    }
    return Status::ok();
}

Status read_frame_component(const Segment& segment, int index, Frame* frame) {
    const std::uint8_t* bytes = segment.payload.data() + 6 + 3 * index;
    FrameComponent& component = frame->components[index];
    component.id = bytes[0];
    component.horizontal = bytes[1] >> 4;
    component.vertical = bytes[1] & 15;
    component.quantization_slot = bytes[2];
    for (int i = 0; i < index; ++i) {
        if (frame->components[i].id == component.id) {
            return Status::irregular("two components with one number", segment.offset);
        }
    }
    if (component.quantization_slot >= kTableSlots) {
        return Status::irregular("a quantization table number out of range", segment.offset);
    }
    return Status::ok();
}

Status read_frame(const Segment& segment, const DecodeLimits& limits, Frame* frame) {
    const ByteSpan bytes = segment.payload;
    if (frame->component_count != 0) return Status::irregular("a second frame header", segment.offset);
    if (bytes.size() < 6) return Status::irregular("a frame header is cut short", segment.offset);
    if (bytes[0] != 8) return Status::unsupported("samples that do not have 8 bits", segment.offset);
    const int component_count = bytes[5];
    if (component_count != 1 && component_count != 3) {
        return Status::unsupported("neither 1 nor 3 components", segment.offset);
    }
    if (bytes.size() != 6 + 3 * static_cast<std::size_t>(component_count)) {
        return Status::irregular("a frame header of a wrong length", segment.offset);
    }
    frame->size.height = static_cast<std::int32_t>(big16(bytes.data() + 1));
    frame->size.width = static_cast<std::int32_t>(big16(bytes.data() + 3));
    for (int i = 0; i < component_count; ++i) {
        const Status status = read_frame_component(segment, i, frame);
        if (!status.is_ok()) return status;
    }
    frame->component_count = component_count;
    return complete_frame(limits, segment.offset, frame);
}

Status read_scan_component(const Segment& segment, int index, const Frame& frame, Scan* scan) {
    const std::uint8_t* bytes = segment.payload.data() + 1 + 2 * index;
    ScanComponent& component = scan->components[index];
    component.component = -1;
    for (int i = 0; i < frame.component_count; ++i) {
        if (frame.components[i].id == bytes[0]) component.component = i;
    }
    // T.81 B.2.3 requires the order of the frame header; this also excludes naming a component twice.
    const int previous = index == 0 ? -1 : scan->components[index - 1].component;
    if (component.component <= previous) {
        return Status::irregular("a scan names components wrongly", segment.offset);
    }
    component.dc_slot = bytes[1] >> 4;
    component.ac_slot = bytes[1] & 15;
    if (component.dc_slot >= kTableSlots || component.ac_slot >= kTableSlots) {
        return Status::irregular("a Huffman table number out of range", segment.offset);
    }
    return Status::ok();
}

int blocks_per_mcu(const Frame& frame, const Scan& scan) {
    int blocks = 0;
    for (int i = 0; i < scan.component_count; ++i) {
        const FrameComponent& component = frame.components[scan.components[i].component];
        blocks += component.horizontal * component.vertical;
    }
    return blocks;
}

// Reads the four numbers at the end of a scan header. In a progressive file each is legal by itself (libjpeg's limit
// for the shift is 13); ScanScript judges how they fit the other scans.
Status read_band(const Segment& segment, const Frame& frame, const std::uint8_t* bytes, Scan* scan) {
    scan->spectral_start = bytes[0];
    scan->spectral_end = bytes[1];
    scan->approximation_high = bytes[2] >> 4;
    scan->approximation_low = bytes[2] & 15;
    if (!frame.is_progressive) {
        const bool is_sequential = bytes[0] == 0 && bytes[1] == 63 && bytes[2] == 0;
        return is_sequential
                   ? Status::ok()
                   : Status::irregular("a scan's parameters are not those of a sequential file", segment.offset);
    }
    const bool is_band_legal = scan->is_dc() ? scan->spectral_end == 0
                                             : scan->spectral_start <= scan->spectral_end && scan->spectral_end <= 63 &&
                                                   scan->component_count == 1;
    const bool is_shift_legal = scan->approximation_low <= 13 &&
                                (!scan->is_refinement() || scan->approximation_low == scan->approximation_high - 1);
    if (is_band_legal && is_shift_legal) return Status::ok();
    return Status::irregular("a scan's parameters are not those of a progressive file", segment.offset);
}

Status read_scan(const Segment& segment, const Frame& frame, Scan* scan) {
    const ByteSpan bytes = segment.payload;
    if (frame.component_count == 0) return Status::irregular("a scan before the frame header", segment.offset);
    if (bytes.is_empty()) return Status::irregular("a scan header is cut short", segment.offset);
    const int component_count = bytes[0];
    if (component_count < 1 || component_count > frame.component_count) {
        return Status::irregular("a scan with a wrong number of components", segment.offset);
    }
    const std::size_t parameters = 1 + 2 * static_cast<std::size_t>(component_count);
    if (bytes.size() != parameters + 3) return Status::irregular("a scan header of a wrong length", segment.offset);
    scan->component_count = component_count;
    Status status = read_band(segment, frame, bytes.data() + parameters, scan);
    for (int i = 0; status.is_ok() && i < component_count; ++i) status = read_scan_component(segment, i, frame, scan);
    if (!status.is_ok()) return status;
    scan->data_offset = segment.end;
    if (component_count > 1 && blocks_per_mcu(frame, *scan) > kMaxBlocksPerMcu) {
        return Status::irregular("an MCU of more than ten blocks", segment.offset);
    }
    return Status::ok();
}

// libjpeg's guess, in its order.
Status choose_color(const Frame& frame, const AppMetadata& facts, ColorModel* color) {
    *color = ColorModel::kYcc;
    if (frame.component_count == 1) {
        *color = ColorModel::kGray;
    } else if (facts.has_jfif) {
        return Status::ok();
    } else if (facts.has_adobe) {
        if (facts.adobe_transform > 1) return Status::irregular("an unknown Adobe color transform", 0);
        if (facts.adobe_transform == 0) *color = ColorModel::kRgb;
    } else if (frame.components[0].id == 'R' && frame.components[1].id == 'G' && frame.components[2].id == 'B') {
        *color = ColorModel::kRgb;
    }
    return Status::ok();
}

// DHT, DQT and DRI.
bool is_table_segment(std::uint8_t code) {
    return code == marker::kDht || code == marker::kDqt || code == marker::kDri;
}

Status read_tables(const Segment& segment, Tables* tables) {
    if (segment.code == marker::kDht) return read_dht(segment, tables);
    if (segment.code == marker::kDqt) return read_dqt(segment, tables);
    return read_dri(segment, tables);
}

Status read_header_segment(const Segment& segment, const DecodeLimits& limits, Header* header) {
    if (is_table_segment(segment.code)) return read_tables(segment, &header->tables);
    if (segment.code >= marker::kSof0 && segment.code <= marker::kSof2) {
        header->frame.is_progressive = segment.code == marker::kSof2;
        return read_frame(segment, limits, &header->frame);
    }
    if (is_app_or_comment(segment.code)) {
        return read_app_segment(segment.code, segment.payload, segment.offset, &header->app);
    }
    if (segment.code > marker::kSof2 && segment.code <= 0xCF && segment.code != 0xC8 && segment.code != 0xCC) {
        return Status::unsupported("neither sequential nor progressive Huffman coding", segment.offset);
    }
    return Status::irregular("a marker that does not belong in a header", segment.offset);
}

}  // namespace

Status complete_frame(const DecodeLimits& limits, std::uint64_t offset, Frame* frame) noexcept {
    if (const Status status = check_size(frame->size, limits, offset); !status.is_ok()) return status;
    for (int i = 0; i < frame->component_count; ++i) {
        const FrameComponent& component = frame->components[i];
        if (component.horizontal < 1 || component.horizontal > 4 || component.vertical < 1 || component.vertical > 4) {
            return Status::irregular("a sampling factor out of range", offset);
        }
        frame->max_horizontal = std::max(frame->max_horizontal, component.horizontal);
        frame->max_vertical = std::max(frame->max_vertical, component.vertical);
    }
    for (int i = 0; i < frame->component_count; ++i) {
        FrameComponent& component = frame->components[i];
        if (frame->max_horizontal % component.horizontal != 0 || frame->max_vertical % component.vertical != 0) {
            return Status::unsupported("fractional sampling ratios", offset);
        }
        component.horizontal_expansion = frame->max_horizontal / component.horizontal;
        component.vertical_expansion = frame->max_vertical / component.vertical;
        if (!is_known_expansion(component.horizontal_expansion, component.vertical_expansion)) {
            return Status::unsupported("an unusual sampling ratio", offset);
        }
        component.width = divide_up(frame->size.width, component.horizontal_expansion);
        component.height = divide_up(frame->size.height, component.vertical_expansion);
        component.blocks_wide = divide_up(component.width, 8);
        component.blocks_high = divide_up(component.height, 8);
    }
    frame->mcus_wide = divide_up(frame->size.width, 8 * frame->max_horizontal);
    frame->mcus_high = divide_up(frame->size.height, 8 * frame->max_vertical);
    return Status::ok();
}

Status read_segment(ByteSpan file, std::size_t offset, Segment* segment) noexcept {
    if (offset > file.size() || file.size() - offset < 2) return Status::irregular(kEndsInHeader, offset);
    if (file[offset] != 0xFF) return Status::irregular("bytes between two segments", offset);
    segment->code = file[offset + 1];
    segment->offset = offset;
    segment->end = offset + 2;
    segment->payload = {};
    if (segment->code == marker::kEoi) return Status::ok();
    if (segment->code < 0xC0 || segment->code == 0xFF || (segment->code >= 0xD0 && segment->code <= 0xD8)) {
        return Status::irregular("a marker that does not belong in a header", offset);
    }
    if (file.size() - offset < 4) return Status::irregular(kEndsInHeader, offset);
    const std::size_t length = big16(file.data() + offset + 2);
    if (length < 2) return Status::irregular("a segment length below 2", offset);
    if (length > file.size() - offset - 2) return Status::irregular(kReachesBehindEnd, offset);
    segment->end = offset + 2 + length;
    segment->payload = file.subspan(offset + 4, length - 2);
    return Status::ok();
}

bool is_cut_short(const Status& status) noexcept {
    return status.detail == kEndsInHeader || status.detail == kReachesBehindEnd;
}

Status read_header_segments(ByteSpan file, const DecodeLimits& limits, Header* header) noexcept {
    *header = Header{};
    if (file.size() < 3 || std::memcmp(file.data(), "\xFF\xD8\xFF", 3) != 0) {
        return Status::unsupported("the first bytes are not those of a JPEG file");
    }
    if (file.size() > UINT32_MAX) return {StatusCode::kLimitExceeded, 0, 0, "more than 4 GiB"};
    Segment segment;
    std::size_t offset = 2;
    while (true) {
        Status status = read_segment(file, offset, &segment);
        if (status.is_ok() && segment.code == marker::kSos) break;
        if (status.is_ok()) status = read_header_segment(segment, limits, header);
        if (!status.is_ok()) return status;
        offset = segment.end;
    }
    Status status = read_scan(segment, header->frame, &header->first_scan);
    if (status.is_ok()) status = choose_color(header->frame, header->app, &header->color);
    if (status.is_ok()) status = check_exif(header->app);
    return status;
}

Status read_segments_between_scans(ByteSpan file, std::size_t* offset, const Frame& frame, Tables* tables, Scan* scan,
                                   bool* is_end) noexcept {
    Segment segment;
    while (true) {
        Status status = read_segment(file, *offset, &segment);
        if (!status.is_ok()) return status;
        *offset = segment.end;
        *is_end = segment.code == marker::kEoi;
        if (*is_end) return Status::ok();
        if (segment.code == marker::kSos) return read_scan(segment, frame, scan);
        if (is_table_segment(segment.code)) {
            status = read_tables(segment, tables);
            if (!status.is_ok()) return status;
        } else if (!is_app_or_comment(segment.code)) {
            return Status::irregular("a marker that does not belong between scans", segment.offset);
        }
    }
}

}  // namespace fastload::jpeg
