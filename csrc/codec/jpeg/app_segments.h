// Judges application segments as the reference decoder's Python header parser would.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/span.h"
#include "base/status.h"

namespace fastload::jpeg {

// True if `payload` begins with a literal, including any zeros inside of it.
template <std::size_t size>
bool starts_with(ByteSpan payload, const char (&text)[size]) noexcept {
    return payload.size() >= size - 1 && std::memcmp(payload.data(), text, size - 1) == 0;
}

// The contents of the application segments that matter for decoding, and those that decide whether EXIF data are
// parsed.
struct AppMetadata {
    bool has_jfif = false;
    bool has_adobe = false;
    std::uint8_t adobe_transform = 0;
    bool has_resolution = false;  // a JFIF segment has a resolution, so the EXIF data are not read for it
    ByteSpan exif;                // the EXIF segment from its "Exif" on; empty if there is none
    bool has_split_exif = false;  // more than one such segment; Pillow joins them
    std::uint64_t exif_offset = 0;
    bool has_app1 = false;  // any APP1 segment; this is the first one
    ByteSpan first_app1;
};

// Reads one APPn segment: `code` is the marker's second byte, `payload` the bytes after the length, `offset` its
// position in the file. Returns kIrregular or kUnsupported if Pillow might raise, warn or open the file as another
// format.
Status read_app_segment(std::uint8_t code, ByteSpan payload, std::uint64_t offset, AppMetadata* metadata) noexcept;

// Call when all segments before the scan are known. Returns kIrregular if Pillow, which then reads the resolution from
// the EXIF data, might warn about them.
Status check_exif(const AppMetadata& metadata) noexcept;

// The orientation that OpenCV applies, as EXIF numbers it: 1 (none) to 8. Call when all segments before the scan are
// known; the EXIF data are parsed only here. Returns kUnsupported if versions of OpenCV may differ about it: some parse
// the first APP1 segment in any case, others the first that has EXIF data.
Status read_orientation(const AppMetadata& metadata, int* orientation) noexcept;

}  // namespace fastload::jpeg
