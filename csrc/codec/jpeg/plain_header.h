// The metadata that Pillow's header parser, which is written in Python, keeps of an ordinary JPEG file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/span.h"
#include "codec/decoder.h"
#include "codec/jpeg/markers.h"

namespace fastload::jpeg {

// Note [plain headers]
// Pillow keeps a copy of every application segment and comment, the quantization tables, the frame header, and the
// meaning of some application segments. A header is plain if all versions since 11 keep the same metadata without an
// exception: everything up to the first scan lies in the given bytes, segment directly after segment, and nothing in it
// is read differently by different versions or takes more than cutting bytes. All other headers are left to Pillow.

constexpr int kMaxPlainSegments = 40;

struct PlainHeader {
    Segment segments[kMaxPlainSegments];  // APPn, COM, DQT and the one frame header, in the order of the file
    int segment_count = 0;
    ImageSize size;
    int component_count = 0;  // 1 or 3
    std::size_t end = 0;      // after the header of the first scan
};

// True if Pillow recognises a payload by its first bytes.
bool is_jfif(const Segment& segment) noexcept;
bool is_exif(const Segment& segment) noexcept;
bool is_xmp(const Segment& segment) noexcept;
bool is_icc_profile(const Segment& segment) noexcept;
bool is_adobe(const Segment& segment) noexcept;

constexpr std::size_t kPlainTableBytes = 65;

// Writes the values of a table of a plain DQT, the 64 bytes after its number, in natural order (T.81 figure A.6).
void order_naturally(const std::uint8_t* zigzag, std::uint8_t* natural) noexcept;

// False if the header of `contents` is not plain; `header` is meaningless then.
bool read_plain_header(ByteSpan contents, PlainHeader* header) noexcept;

}  // namespace fastload::jpeg
