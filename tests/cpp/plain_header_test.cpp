#include "codec/jpeg/plain_header.h"

#include "check.h"
#include "jpeg_bytes.h"

namespace fastload::jpeg {
namespace {

using namespace testing;

Bytes with(const Bytes& before_frame) {
    return joined(
        {kSoi, dqt(0, 1), before_frame, sof(0xC0, 24, 16, {{1, 0x11, 0}}), dht(0x00, 0), dht(0x10, 0), sos({1})});
}

bool is_plain(const Bytes& file) {
    PlainHeader header;
    const Bytes exact(file);  // so that the sanitizers detect a read after its end
    return read_plain_header(span_of(exact), &header);
}

}  // namespace

TEST_CASE(a_plain_header_has_its_segments_in_order) {
    const Bytes file = joined({with(segment(0xFE, {7})), {1, 2, 3}});
    PlainHeader header;
    CHECK(read_plain_header(span_of(file), &header));
    CHECK_EQUAL(header.end, file.size() - 3);
    CHECK_EQUAL(header.size.height, 16);
    CHECK_EQUAL(header.size.width, 24);
    CHECK_EQUAL(header.component_count, 1);
    CHECK_EQUAL(header.segment_count, 3);
    CHECK_EQUAL(header.segments[0].code, marker::kDqt);
    CHECK_EQUAL(header.segments[1].code, marker::kCom);
    CHECK_EQUAL(header.segments[1].payload[0], 7);
    CHECK_EQUAL(header.segments[2].code, marker::kSof0);
}

TEST_CASE(a_plain_header_is_whole) {
    const Bytes file = with(segment(0xE5, text("any", 3)));
    for (std::size_t size = 0; size < file.size(); ++size) {
        CHECK(!is_plain({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size)}));
    }
    CHECK(is_plain(file));
}

TEST_CASE(a_header_that_versions_of_pillow_read_differently_is_not_plain) {
    CHECK(is_plain(with(segment(0xE0, text("JFIF\0\1\1\1\0\x48\0\x48", 12)))));
    CHECK(!is_plain(with(segment(0xE0, text("JFIF\0\1\1\2\0\x48\0\x48", 12)))));
    CHECK(!is_plain(with(segment(0xE0, text("JFIF\0\1\1\1\0\x48\0", 11)))));
    CHECK(!is_plain(with(segment(0xED, text("Photoshop 3.0\0", 14)))));
    CHECK(!is_plain(with(joined({segment(0xE1, text("Exif\0\0", 6)), segment(0xE1, text("Exif\0\0", 6))}))));
    CHECK(!is_plain(with({0xFF})));
    CHECK(!is_plain(with(sof(0xC0, 16, 24, {{1, 0x11, 0}}))));
    CHECK(!is_plain(with(sof(0xC3, 16, 24, {{1, 0x11, 0}}))));
}

TEST_CASE(more_segments_than_a_plain_header_has) {
    Bytes comments;
    for (int i = 0; i < kMaxPlainSegments - 2; ++i) append(segment(0xFE, {}), &comments);
    CHECK(is_plain(with(comments)));
    append(segment(0xFE, {}), &comments);
    CHECK(!is_plain(with(comments)));
}

TEST_CASE(tables_are_put_into_the_natural_order) {
    std::uint8_t zigzag[64];
    std::uint8_t natural[64];
    for (int i = 0; i < 64; ++i) zigzag[i] = static_cast<std::uint8_t>(i);
    order_naturally(zigzag, natural);
    const std::uint8_t first_rows[16] = {0, 1, 5, 6, 14, 15, 27, 28, 2, 4, 7, 13, 16, 26, 29, 42};  // T.81 figure A.6
    for (int i = 0; i < 16; ++i) CHECK_EQUAL(natural[i], first_rows[i]);
    CHECK_EQUAL(natural[63], 63);
}

}  // namespace fastload::jpeg
