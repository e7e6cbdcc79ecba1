// Judges application segments as the reference decoder's Python header parser would.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/span.h"
#include "base/status.h"

namespace fastload::jpeg {

// Whether `payload` begins with a literal, zeros inside of it included.
template <std::size_t size>
bool starts_with(ByteSpan payload, const char (&text)[size]) noexcept {
    return payload.size() >= size - 1 && std::memcmp(payload.data(), text, size - 1) == 0;
}

// What the application segments say that matters for decoding, and what decides whether EXIF data get parsed.
struct AppFacts {
    bool has_jfif = false;
    bool has_adobe = false;
    std::uint8_t adobe_transform = 0;
    bool has_resolution = false;  // a JFIF segment gives one, so the EXIF data are not looked at for it
    ByteSpan exif;                // the EXIF segment from its "Exif" on; empty where there is none
    bool has_split_exif = false;  // more than one such segment; Pillow joins them
    std::uint64_t exif_offset = 0;
    bool has_app1 = false;  // any APP1 segment; this is the first one
    ByteSpan first_app1;
};

// Takes one APPn segment: `code` is the marker's second byte, `payload` what follows the length, `offset` its place in
// the file. Returns kIrregular or kUnsupported where Pillow might raise, warn or open the file as another format.
Status read_app_segment(std::uint8_t code, ByteSpan payload, std::uint64_t offset, AppFacts* facts) noexcept;

// To be asked when all segments before the scan are known. Returns kIrregular where Pillow, which then reads the
// resolution from the EXIF data, might warn about them.
Status check_exif(const AppFacts& facts) noexcept;

// How OpenCV turns the image, as EXIF numbers it: 1 (not at all) to 8. To be asked when all segments before the scan
// are known, and only then are the EXIF data parsed. Returns kUnsupported where versions of OpenCV may differ about
// it: some parse the first APP1 segment, whatever it is, others the first that has EXIF data.
Status read_orientation(const AppFacts& facts, int* orientation) noexcept;

}  // namespace fastload::jpeg
