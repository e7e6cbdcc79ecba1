#include "codec/jpeg/app_segments.h"

#include <cstring>

namespace fastload::jpeg {
namespace {

std::uint32_t big16(const std::uint8_t* bytes) { return bytes[0] * 256U + bytes[1]; }

Status read_app0(ByteSpan payload, std::uint64_t offset, AppMetadata* metadata) noexcept {
    if (!starts_with(payload, "JFIF")) return Status::ok();
    // The version is read from bytes 5 and 6 without a length check.
    if (payload.size() < 7) return Status::irregular("a JFIF segment is too short", offset);
    // libjpeg accepts the segment as JFIF only with its terminating zero and all 14 bytes.
    if (payload.size() >= 14 && payload[4] == 0) metadata->has_jfif = true;
    if (payload.size() >= 12 && (payload[7] == 1 || payload[7] == 2)) metadata->has_resolution = true;
    return Status::ok();
}

Status read_app1(ByteSpan payload, std::uint64_t offset, AppMetadata* metadata) noexcept {
    if (!metadata->has_app1) metadata->first_app1 = payload;
    metadata->has_app1 = true;
    if (payload.size() < 6 || std::memcmp(payload.data(), "Exif\0", 6) != 0) return Status::ok();
    metadata->has_split_exif = !metadata->exif.is_empty();
    metadata->exif = payload;
    metadata->exif_offset = offset;
    return Status::ok();
}

Status read_app2(ByteSpan payload, std::uint64_t offset, AppMetadata* /*metadata*/) noexcept {
    if (payload.size() >= 4 && std::memcmp(payload.data(), "MPF", 4) == 0) {
        return Status::unsupported("a multi-picture file", offset);
    }
    // The sequence number of an ICC segment is read from byte 13 without a length check.
    if (payload.size() >= 12 && std::memcmp(payload.data(), "ICC_PROFILE", 12) == 0 && payload.size() < 14) {
        return Status::irregular("an ICC profile segment is too short", offset);
    }
    return Status::ok();
}

// Photoshop's image resources: "8BIM", a 16-bit code, a name that starts with its length, a 32-bit size, the data; name
// and data padded to even offsets. If anything but the length of the name is cut short, the loop ends quietly.
Status read_app13(ByteSpan payload, std::uint64_t offset, AppMetadata* /*metadata*/) noexcept {
    if (payload.size() < 14 || std::memcmp(payload.data(), "Photoshop 3.0", 14) != 0) return Status::ok();
    std::uint64_t at = 14;
    const std::uint64_t size = payload.size();
    while (at + 4 <= size && std::memcmp(payload.data() + at, "8BIM", 4) == 0) {
        at += 6;
        if (at > size) break;
        if (at == size) return Status::irregular("a Photoshop segment is cut short", offset);
        at += 1U + payload[at];
        at += at & 1U;
        if (at + 4 > size) break;
        const std::uint64_t length = (std::uint64_t{big16(payload.data() + at)} << 16) | big16(payload.data() + at + 2);
        at += 4 + length;
        at += at & 1U;
    }
    return Status::ok();
}

Status read_app14(ByteSpan payload, std::uint64_t offset, AppMetadata* metadata) noexcept {
    if (!starts_with(payload, "Adobe")) return Status::ok();
    if (payload.size() < 7) return Status::irregular("an Adobe segment is too short", offset);
    if (payload.size() >= 12) {
        metadata->has_adobe = true;
        metadata->adobe_transform = payload[11];
    }
    return Status::ok();
}

struct AppReader {
    std::uint8_t code;
    Status (*read)(ByteSpan payload, std::uint64_t offset, AppMetadata* metadata) noexcept;
};

constexpr AppReader kAppReaders[] = {
    {0xE0, read_app0}, {0xE1, read_app1}, {0xE2, read_app2}, {0xED, read_app13}, {0xEE, read_app14},
};

// Reads the first directory of the TIFF structure inside an EXIF segment.
class ExifDirectory {
  public:
    explicit ExifDirectory(ByteSpan tiff) : tiff_(tiff), is_big_endian_(tiff[0] == 'M') {}

    // True if nothing in the directory can make Pillow warn: all entries and their data lie inside, and the two tags
    // whose values are read have the right type and count.
    bool is_clean() const {
        const std::uint64_t directory = read32(4);
        if (directory + 2 > tiff_.size()) return false;
        const std::uint64_t entries = read16(directory);
        const std::uint64_t end = directory + 2 + 12 * entries;
        if (end + 4 > tiff_.size()) return false;  // with the offset of the next directory
        std::uint64_t data_bytes = 0;
        for (std::uint64_t at = directory + 2; at != end; at += 12) {
            if (!is_clean_entry(at, &data_bytes)) return false;
        }
        return data_bytes <= tiff_.size();
    }

    // Call for a clean directory only. False if its tags are not in ascending order, because readers differ then about
    // which one counts, or if the orientation is not one short.
    bool read_orientation(int* orientation) const {
        const std::uint64_t directory = read32(4);
        const std::uint64_t end = directory + 2 + 12 * std::uint64_t{read16(directory)};
        std::uint32_t last_tag = 0;
        for (std::uint64_t at = directory + 2; at != end; at += 12) {
            const std::uint32_t tag = read16(at);
            if (tag <= last_tag) return false;
            last_tag = tag;
            if (tag != kOrientationTag) continue;
            if (read16(at + 2) != 3 || read32(at + 4) != 1) return false;
            const std::uint32_t value = read16(at + 8);
            *orientation = value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
        }
        return true;
    }

  private:
    static constexpr std::uint32_t kOrientationTag = 0x0112;
    static constexpr std::uint8_t kUnitBytes[14] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4};

    bool is_clean_entry(std::uint64_t at, std::uint64_t* data_bytes) const {
        const std::uint32_t tag = read16(at);
        const std::uint32_t type = read16(at + 2);
        const std::uint64_t count = read32(at + 4);
        if (tag == 0x011A && (type != 5 || count != 1)) return false;  // x resolution: one rational
        if (tag == 0x0128 && (type != 3 || count != 1)) return false;  // its unit: one short
        if (type == 0 || type >= sizeof(kUnitBytes)) return false;
        const std::uint64_t size = count * kUnitBytes[type];
        if (size <= 4) return true;
        *data_bytes += size;
        return read32(at + 8) + size <= tiff_.size();
    }

    std::uint32_t read16(std::uint64_t at) const {
        const std::uint32_t first = tiff_[at];
        const std::uint32_t second = tiff_[at + 1];
        return is_big_endian_ ? first << 8 | second : second << 8 | first;
    }
    std::uint64_t read32(std::uint64_t at) const {
        const std::uint64_t first = read16(at);
        const std::uint64_t second = read16(at + 2);
        return is_big_endian_ ? first << 16 | second : second << 16 | first;
    }

    ByteSpan tiff_;
    bool is_big_endian_;
};

constexpr std::size_t kExifPrefix = 6;  // "Exif", two zeros

// The bytes after the prefix if they are a TIFF structure, else nothing.
ByteSpan tiff_in(ByteSpan payload) {
    if (payload.size() < kExifPrefix + 8) return {};
    const ByteSpan tiff = payload.subspan(kExifPrefix, payload.size() - kExifPrefix);
    const bool is_tiff = std::memcmp(tiff.data(), "II*", 4) == 0 || std::memcmp(tiff.data(), "MM\0*", 4) == 0;
    return is_tiff ? tiff : ByteSpan{};
}

}  // namespace

Status read_app_segment(std::uint8_t code, ByteSpan payload, std::uint64_t offset, AppMetadata* metadata) noexcept {
    for (const AppReader& reader : kAppReaders) {
        if (reader.code == code) return reader.read(payload, offset, metadata);
    }
    return Status::ok();
}

Status check_exif(const AppMetadata& metadata) noexcept {
    if (metadata.exif.is_empty() || metadata.has_resolution) return Status::ok();
    if (metadata.has_split_exif) return Status::irregular("EXIF data in more than one segment", metadata.exif_offset);
    const ByteSpan tiff = tiff_in(metadata.exif);
    if (tiff.is_empty() || !ExifDirectory(tiff).is_clean()) {
        return Status::irregular("EXIF data that may be damaged", metadata.exif_offset);
    }
    return Status::ok();
}

Status read_orientation(const AppMetadata& metadata, int* orientation) noexcept {
    *orientation = 1;
    if (!metadata.has_app1) return Status::ok();
    const ByteSpan tiff = tiff_in(metadata.first_app1);
    if (metadata.exif.is_empty() && tiff.is_empty()) return Status::ok();
    const bool is_only_exif = metadata.exif.data() == metadata.first_app1.data() && !metadata.has_split_exif;
    if (!is_only_exif || tiff.is_empty())
        return Status::unsupported("EXIF data in an unusual place", metadata.exif_offset);
    const ExifDirectory directory(tiff);
    if (!directory.is_clean() || !directory.read_orientation(orientation)) {
        return Status::unsupported("EXIF data with an unusual orientation", metadata.exif_offset);
    }
    return Status::ok();
}

}  // namespace fastload::jpeg
