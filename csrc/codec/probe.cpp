#include "codec/probe.h"

#include <cstring>

namespace fastload {
namespace {

constexpr const char* kFormatNames[] = {"unknown", "JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF"};

// Reads numbers at fixed positions. The caller has checked that they lie inside.
struct Bytes {
    ByteSpan bytes;

    bool has(std::size_t offset, std::size_t count) const {
        return offset <= bytes.size() && count <= bytes.size() - offset;
    }
    bool is(std::size_t offset, const char* text, std::size_t count) const {
        return has(offset, count) && std::memcmp(bytes.data() + offset, text, count) == 0;
    }
    std::uint32_t big16(std::size_t at) const { return bytes[at] * 256U + bytes[at + 1]; }
    std::uint32_t little16(std::size_t at) const { return bytes[at + 1] * 256U + bytes[at]; }
    std::uint32_t big32(std::size_t at) const { return big16(at) << 16 | big16(at + 2); }
    std::uint32_t little32(std::size_t at) const { return little16(at + 2) << 16 | little16(at); }
};

ImageInfo info_of(ImageFormat format, std::uint32_t width, std::uint32_t height) {
    ImageInfo info;
    info.format = format;
    if (width <= INT32_MAX && height <= INT32_MAX) {
        info.size = {static_cast<std::int32_t>(width), static_cast<std::int32_t>(height)};
    }
    return info;
}

bool is_frame_header(std::uint8_t code) {
    return code >= 0xC0 && code <= 0xCF && code != 0xC4 && code != 0xC8 && code != 0xCC;
}

ImageInfo probe_jpeg(const Bytes& head) {
    std::size_t at = 2;
    while (head.has(at, 4) && head.bytes[at] == 0xFF) {
        const std::uint8_t code = head.bytes[at + 1];
        if (code == 0xFF) {  // fill byte
            ++at;
            continue;
        }
        if (is_frame_header(code)) {
            if (!head.has(at, 10)) break;
            ImageInfo info = info_of(ImageFormat::kJpeg, head.big16(at + 7), head.big16(at + 5));
            info.components = head.bytes[at + 9];
            return info;
        }
        if (code == 0xDA || code == 0xD9) break;
        at += 2 + head.big16(at + 2);
    }
    return info_of(ImageFormat::kJpeg, 0, 0);
}

ImageInfo probe_bmp(const Bytes& head) {
    if (!head.has(14, 12)) return info_of(ImageFormat::kBmp, 0, 0);
    if (head.little32(14) == 12) return info_of(ImageFormat::kBmp, head.little16(18), head.little16(20));
    const std::uint32_t height = head.little32(22);  // negative for rows stored from the top
    return info_of(ImageFormat::kBmp, head.little32(18), height > INT32_MAX ? 0U - height : height);
}

ImageInfo probe_webp(const Bytes& head) {
    if (head.is(12, "VP8X", 4) && head.has(24, 6)) {
        const std::uint32_t width = head.little16(24) | std::uint32_t{head.bytes[26]} << 16;
        const std::uint32_t height = head.little16(27) | std::uint32_t{head.bytes[29]} << 16;
        return info_of(ImageFormat::kWebp, width + 1, height + 1);
    }
    if (head.is(12, "VP8L", 4) && head.has(20, 5)) {
        const std::uint32_t packed = head.little32(21);
        return info_of(ImageFormat::kWebp, (packed & 0x3FFFU) + 1, (packed >> 14 & 0x3FFFU) + 1);
    }
    if (head.is(12, "VP8 ", 4) && head.has(26, 4)) {
        return info_of(ImageFormat::kWebp, head.little16(26) & 0x3FFFU, head.little16(28) & 0x3FFFU);
    }
    return info_of(ImageFormat::kWebp, 0, 0);
}

}  // namespace

const char* format_name(ImageFormat format) noexcept { return kFormatNames[static_cast<std::uint8_t>(format)]; }

ImageInfo probe(ByteSpan bytes) noexcept {
    const Bytes head{bytes};
    if (head.is(0, "\xFF\xD8\xFF", 3)) return probe_jpeg(head);
    if (head.is(0, "\x89PNG\r\n\x1A\n", 8)) {
        const bool has_size = head.is(12, "IHDR", 4) && head.has(16, 8);
        return info_of(ImageFormat::kPng, has_size ? head.big32(16) : 0, has_size ? head.big32(20) : 0);
    }
    if (head.is(0, "GIF87a", 6) || head.is(0, "GIF89a", 6)) {
        const bool has_size = head.has(6, 4);
        return info_of(ImageFormat::kGif, has_size ? head.little16(6) : 0, has_size ? head.little16(8) : 0);
    }
    if (head.is(0, "BM", 2)) return probe_bmp(head);
    if (head.is(0, "RIFF", 4) && head.is(8, "WEBP", 4)) return probe_webp(head);
    const bool is_tiff =
        head.is(0, "II*\0", 4) || head.is(0, "MM\0*", 4) || head.is(0, "II+\0", 4) || head.is(0, "MM\0+", 4);
    return info_of(is_tiff ? ImageFormat::kTiff : ImageFormat::kUnknown, 0, 0);
}

}  // namespace fastload
