#include "codec/jpeg/plain_header.h"

#include <cstring>

#include "kernels/zigzag.h"

namespace fastload::jpeg {
namespace {

constexpr std::uint8_t kApp1 = 0xE1;
constexpr std::uint8_t kApp2 = 0xE2;
constexpr std::uint8_t kApp13 = 0xED;
constexpr std::uint8_t kApp14 = 0xEE;
// The factor from dots per centimetre to dots per inch, which Pillow applies since 11.2.
constexpr std::uint8_t kPerCentimetre = 2;

template <std::size_t size>
bool begins(const Segment& segment, std::uint8_t code, const char (&text)[size]) {
    return segment.code == code && starts_with(segment.payload, text);
}

bool is_plain_dqt(ByteSpan payload) {
    if (payload.size() % kPlainTableBytes != 0) return false;
    for (std::size_t at = 0; at != payload.size(); at += kPlainTableBytes) {
        if (payload[at] >> 4 != 0) return false;
    }
    return true;
}

bool is_plain_app(const Segment& segment, bool has_exif, bool has_profile) {
    const ByteSpan payload = segment.payload;
    if (is_jfif(segment)) return payload.size() >= 12 && payload[7] != kPerCentimetre;
    if (is_exif(segment)) return !has_exif;
    if (is_icc_profile(segment)) return !has_profile && payload.size() >= 14;
    if (is_adobe(segment)) return payload.size() >= 12;
    return !begins(segment, kApp2, "FPXR\0") && !begins(segment, kApp2, "MPF\0") &&
           !begins(segment, kApp13, "Photoshop 3.0\0");
}

bool read_frame(const Segment& segment, PlainHeader* header) {
    const ByteSpan payload = segment.payload;
    if (header->component_count != 0 || payload.size() < 6 || payload[0] != 8) return false;
    const int component_count = payload[5];
    if (component_count != 1 && component_count != 3) return false;
    if (payload.size() != 6 + 3 * static_cast<std::size_t>(component_count)) return false;
    header->size = {payload[3] * 256 + payload[4], payload[1] * 256 + payload[2]};
    header->component_count = component_count;
    return header->size.width != 0 && header->size.height != 0;
}

}  // namespace

bool is_jfif(const Segment& segment) noexcept { return begins(segment, marker::kApp0, "JFIF"); }
bool is_exif(const Segment& segment) noexcept { return begins(segment, kApp1, "Exif\0\0"); }
bool is_xmp(const Segment& segment) noexcept { return begins(segment, kApp1, "http://ns.adobe.com/xap/1.0/\0"); }
bool is_icc_profile(const Segment& segment) noexcept { return begins(segment, kApp2, "ICC_PROFILE\0"); }
bool is_adobe(const Segment& segment) noexcept { return begins(segment, kApp14, "Adobe"); }

void order_naturally(const std::uint8_t* zigzag, std::uint8_t* natural) noexcept {
    for (int i = 0; i < 64; ++i) natural[i] = zigzag[kZigzagPositions.of[i]];
}

bool read_plain_header(ByteSpan contents, PlainHeader* header) noexcept {
    header->segment_count = 0;
    header->component_count = 0;
    if (contents.size() < 3 || std::memcmp(contents.data(), "\xFF\xD8\xFF", 3) != 0) return false;
    bool has_exif = false;
    bool has_profile = false;
    Segment segment;
    for (std::size_t offset = 2;; offset = segment.end) {
        if (!read_segment(contents, offset, &segment).is_ok()) return false;
        if (segment.code == marker::kSos) break;
        if (segment.code == marker::kDht || segment.code == marker::kDri) continue;
        const bool is_app = segment.code >= marker::kApp0 && segment.code <= marker::kApp15;
        bool is_plain = segment.code == marker::kCom;
        if (is_app) is_plain = is_plain_app(segment, has_exif, has_profile);
        if (segment.code == marker::kDqt) is_plain = is_plain_dqt(segment.payload);
        if (segment.code >= marker::kSof0 && segment.code <= marker::kSof2) is_plain = read_frame(segment, header);
        if (!is_plain || header->segment_count == kMaxPlainSegments) return false;
        has_exif |= is_exif(segment);
        has_profile |= is_icc_profile(segment);
        header->segments[header->segment_count++] = segment;
    }
    header->end = segment.end;
    return header->component_count != 0;
}

}  // namespace fastload::jpeg
