#include "codec/jpeg/markers.h"

#include "check.h"
#include "jpeg_bytes.h"

namespace fastload::jpeg {
namespace {

using namespace testing;

StatusCode verdict(const Bytes& file, Header* header = nullptr) {
    const auto own = std::make_unique<Header>();
    const Bytes exact(file);
    const Status status = read_header_segments(span_of(exact), DecodeLimits{}, header == nullptr ? own.get() : header);
    CHECK(status.is_ok() || *status.detail != '\0');
    return status.code;
}

const std::vector<FrameFactors> kColor420 = {{1, 0x22, 0}, {2, 0x11, 0}, {3, 0x11, 0}};

// A grey file whose parts can be replaced.
Bytes with(const Bytes& before_frame, const Bytes& frame, const Bytes& scan) {
    return joined({kSoi, dqt(0, 1), before_frame, frame, dht(0x00, 0), dht(0x10, 0), scan});
}

Bytes with_segment(const Bytes& bytes) { return with(bytes, sof(0xC0, 16, 16, {{1, 0x11, 0}}), sos({1})); }

Bytes with_frame(const Bytes& frame) { return with({}, frame, sos({1})); }

Bytes with_color(const Bytes& before_frame, const std::vector<FrameFactors>& components) {
    std::vector<std::uint8_t> ids;
    for (const FrameFactors& component : components) ids.push_back(component.id);
    return with(before_frame, sof(0xC0, 16, 16, components), sos(ids));
}

Bytes app(std::uint8_t code, const char* characters, std::size_t count) {
    return segment(code, text(characters, count));
}

constexpr StatusCode kIrregular = StatusCode::kIrregular;
constexpr StatusCode kUnsupported = StatusCode::kUnsupported;
constexpr StatusCode kOk = StatusCode::kOk;

}  // namespace

TEST_CASE(markers_refuse_all_but_8_bit_files_of_a_known_kind) {
    CHECK(verdict({}) == kUnsupported);
    CHECK(verdict({0xFF, 0xD8}) == kUnsupported);
    CHECK(verdict(text("\x89PNG\r\n\x1A\n", 8)) == kUnsupported);
    for (const int code : {0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF}) {
        CHECK(verdict(with_frame(sof(static_cast<std::uint8_t>(code), 16, 16, {{1, 0x11, 0}}))) == kUnsupported);
    }
    Bytes twelve_bits = sof(0xC1, 16, 16, {{1, 0x11, 0}});
    twelve_bits[4] = 12;
    CHECK(verdict(with_frame(twelve_bits)) == kUnsupported);
    CHECK(verdict(with_color({}, {{1, 0x11, 0}, {2, 0x11, 0}})) == kUnsupported);
    CHECK(verdict(with_color({}, {{1, 0x11, 0}, {2, 0x11, 0}, {3, 0x11, 0}, {4, 0x11, 0}})) == kUnsupported);
    CHECK(verdict(with_color({}, {{1, 0x31, 0}, {2, 0x21, 0}, {3, 0x11, 0}})) == kUnsupported);
    CHECK(verdict(with_color({}, {{1, 0x14, 0}, {2, 0x11, 0}, {3, 0x11, 0}})) == kUnsupported);
    CHECK(verdict(with_color({}, {{1, 0x42, 0}, {2, 0x11, 0}, {3, 0x11, 0}})) == kUnsupported);
}

TEST_CASE(markers_refuse_wrong_frame_headers) {
    CHECK(verdict(with_frame(sof(0xC0, 16, 16, {{1, 0x11, 0}}))) == kOk);
    CHECK(verdict(with_frame(sof(0xC0, 0, 16, {{1, 0x11, 0}}))) == kIrregular);
    CHECK(verdict(with_frame(sof(0xC0, 16, 0, {{1, 0x11, 0}}))) == kIrregular);
    CHECK(verdict(with_frame(sof(0xC0, 65500, 1, {{1, 0x11, 0}}))) == kOk);
    CHECK(verdict(with_frame(sof(0xC0, 65501, 1, {{1, 0x11, 0}}))) == kIrregular);
    CHECK(verdict(with_frame(sof(0xC0, 1, 65501, {{1, 0x11, 0}}))) == kIrregular);
    CHECK(verdict(with_frame(sof(0xC0, 65500, 65500, {{1, 0x11, 0}}))) == StatusCode::kLimitExceeded);
    CHECK(verdict(with_frame(sof(0xC0, 16, 16, {{1, 0x01, 0}}))) == kIrregular);
    CHECK(verdict(with_frame(sof(0xC0, 16, 16, {{1, 0x10, 0}}))) == kIrregular);
    CHECK(verdict(with_frame(sof(0xC0, 16, 16, {{1, 0x51, 0}}))) == kIrregular);
    CHECK(verdict(with_frame(sof(0xC0, 16, 16, {{1, 0x11, 4}}))) == kIrregular);
    CHECK(verdict(with_color({}, {{1, 0x11, 0}, {1, 0x11, 0}, {3, 0x11, 0}})) == kIrregular);
    CHECK(verdict(with_color({}, {{1, 0x22, 0}, {2, 0x22, 0}, {3, 0x22, 0}})) == kIrregular);  // 12 blocks an MCU
    CHECK(verdict(with_frame(segment(0xC0, {8, 0, 16, 0, 16, 1, 1, 0x11, 0, 0}))) == kIrregular);
    CHECK(verdict(with_frame(segment(0xC0, {8, 0, 16, 0, 16, 1, 1, 0x11}))) == kIrregular);
    CHECK(verdict(with_frame(segment(0xC0, {8, 0, 16}))) == kIrregular);
    const Bytes frame = sof(0xC0, 16, 16, {{1, 0x11, 0}});
    CHECK(verdict(with_frame(joined({frame, frame}))) == kIrregular);
    CHECK(verdict(with({}, {}, sos({1}))) == kIrregular);
}

TEST_CASE(markers_refuse_wrong_scan_headers) {
    const Bytes frame = sof(0xC0, 16, 16, {{1, 0x11, 0}});
    CHECK(verdict(with({}, frame, sos({2}))) == kIrregular);
    CHECK(verdict(with({}, frame, sos({1}, 0x40))) == kIrregular);
    CHECK(verdict(with({}, frame, sos({1}, 0x04))) == kIrregular);
    CHECK(verdict(with({}, frame, sos({1, 1}))) == kIrregular);
    CHECK(verdict(with({}, frame, segment(0xDA, {}))) == kIrregular);
    CHECK(verdict(with({}, frame, segment(0xDA, {0, 0, 63, 0}))) == kIrregular);
    CHECK(verdict(with({}, frame, segment(0xDA, {1, 1, 0, 0, 63}))) == kIrregular);
    CHECK(verdict(with({}, frame, segment(0xDA, {1, 1, 0, 0, 63, 0, 0}))) == kIrregular);
    CHECK(verdict(with({}, frame, segment(0xDA, {1, 1, 0, 1, 63, 0}))) == kIrregular);
    CHECK(verdict(with({}, frame, segment(0xDA, {1, 1, 0, 0, 0, 0}))) == kIrregular);
    CHECK(verdict(with({}, frame, segment(0xDA, {1, 1, 0, 0, 63, 0x10}))) == kIrregular);
    CHECK(verdict(with({}, frame, segment(0xDA, {1, 1, 0, 0, 63, 0x01}))) == kIrregular);
    const Bytes color = sof(0xC0, 16, 16, kColor420);
    CHECK(verdict(with({}, color, sos({1, 2}))) == kOk);
    CHECK(verdict(with({}, color, sos({2, 1, 3}))) == kIrregular);
    CHECK(verdict(with({}, color, sos({1, 2, 2}))) == kIrregular);
    CHECK(verdict(with({}, color, sos({1, 2, 3, 1}))) == kIrregular);
}

TEST_CASE(markers_refuse_wrong_tables) {
    CHECK(verdict(with_segment({})) == kOk);
    CHECK(verdict(with_segment(dqt(4, 1))) == kIrregular);
    CHECK(verdict(with_segment(dqt(0x20, 1))) == kIrregular);
    CHECK(verdict(with_segment(segment(0xDB, Bytes(64, 0)))) == kIrregular);
    CHECK(verdict(with_segment(segment(0xDB, Bytes(66, 0)))) == kIrregular);
    CHECK(verdict(with_segment(segment(0xDB, {}))) == kOk);
    Bytes wide(129, 0x01);
    wide[0] = 0x12;
    const auto header = std::make_unique<Header>();
    CHECK(verdict(with_segment(segment(0xDB, wide)), header.get()) == kOk);
    CHECK_EQUAL(header->tables.quantization[2].values[5], 0x0101);
    wide.pop_back();
    CHECK(verdict(with_segment(segment(0xDB, wide))) == kIrregular);
    CHECK(verdict(with_segment(dht(0x04, 0))) == kIrregular);
    CHECK(verdict(with_segment(dht(0x20, 0))) == kIrregular);
    CHECK(verdict(with_segment(segment(0xC4, Bytes(16, 0)))) == kIrregular);
    Bytes too_many_codes(17, 0);
    too_many_codes[16] = 2;
    too_many_codes.push_back(1);
    CHECK(verdict(with_segment(segment(0xC4, too_many_codes))) == kIrregular);
    Bytes over_256(17 + 300, 0);
    over_256[8] = 255;
    over_256[9] = 2;
    CHECK(verdict(with_segment(segment(0xC4, over_256))) == kIrregular);
    CHECK(verdict(with_segment(segment(0xDD, {0}))) == kIrregular);
    CHECK(verdict(with_segment(segment(0xDD, {0, 1, 2}))) == kIrregular);
}

TEST_CASE(markers_refuse_everything_between_and_around_segments) {
    CHECK(verdict(with_segment({0x00})) == kIrregular);        // a stray byte
    CHECK(verdict(with_segment({0xFF})) == kIrregular);        // a fill byte
    CHECK(verdict(with_segment({0xFF, 0x00})) == kIrregular);  // a stuffed byte
    for (const int code : {0x01, 0x02, 0xBF, 0xC8, 0xCC, 0xD0, 0xD7, 0xD8, 0xD9, 0xDC, 0xDE, 0xDF, 0xF0, 0xFD}) {
        CHECK(verdict(with_segment(segment(static_cast<std::uint8_t>(code), {0, 1}))) == kIrregular);
    }
    CHECK(verdict(with_segment({0xFF, 0xE5, 0, 0})) == kIrregular);
    CHECK(verdict(with_segment({0xFF, 0xE5, 0, 1})) == kIrregular);
    CHECK(verdict(with_segment({0xFF, 0xE5, 0, 2})) == kOk);
    CHECK(verdict(with_segment({0xFF, 0xFE, 0xFF, 0xFF})) == kIrregular);
}

TEST_CASE(markers_refuse_application_segments_that_pillow_stumbles_over) {
    const auto is_taken = [](std::uint8_t code, const char* characters, std::size_t count) {
        const StatusCode code_of_file = verdict(with_segment(app(code, characters, count)));
        CHECK(code_of_file == kOk || code_of_file == kIrregular || code_of_file == kUnsupported);
        return code_of_file == kOk;
    };
    CHECK(!is_taken(0xE0, "JFIF\0\1", 6));
    CHECK(is_taken(0xE0, "JFIF\0\1\1", 7));
    CHECK(is_taken(0xE0, "JFI", 3));
    CHECK(!is_taken(0xEE, "Adobe\0", 6));
    CHECK(is_taken(0xEE, "Adobe\0\1", 7));
    CHECK(verdict(with_color(app(0xEE, "Adobe\0\x64\0\0\0\0\2", 12), kColor420)) == kIrregular);
    CHECK(!is_taken(0xE2, "ICC_PROFILE\0\1", 13));
    CHECK(is_taken(0xE2, "ICC_PROFILE\0\1\1", 14));
    CHECK(!is_taken(0xE2, "MPF\0", 4));
    const auto is_photoshop_taken = [&](const std::string& blocks) {
        const std::string all = std::string("Photoshop 3.0\0", 14) + blocks;
        return is_taken(0xED, all.data(), all.size());
    };
    const auto block = [](const char* characters, std::size_t count) {
        return "8BIM\4" + std::string(characters, count);
    };
    CHECK(is_photoshop_taken("8BIM\4"));
    CHECK(!is_photoshop_taken("8BIM\4\4"));
    CHECK(is_photoshop_taken(block("\4\0\0\0\0\0\0", 7)));
    CHECK(is_photoshop_taken(block("\4\0\0\0\0\0\1x\0", 9) + "8BIX"));
    CHECK(!is_photoshop_taken(block("\4\0\0\0\0\0\1x\0", 9) + "8BIM\1\1"));
    CHECK(is_photoshop_taken(block("\4\0\0\xFF\xFF\xFF\xFF", 7) + "8BIM\1\1"));
}

TEST_CASE(markers_refuse_exif_data_that_pillow_would_warn_about) {
    // A directory at 8 with two entries: x resolution (a rational at 38) and its unit.
    Bytes exif = text(
        "Exif\0\0II*\0\x08\0\0\0\x02\0\x1A\x01\x05\0\x01\0\0\0\x26\0\0\0\x28\x01\x03\0\x01\0\0\0\x02\0\0\0"
        "\0\0\0\0\x48\0\0\0\x01\0\0\0",
        52);
    const auto with_byte = [&exif](std::size_t at, std::uint8_t value) {
        Bytes changed = exif;
        changed[at] = value;
        return verdict(with_segment(segment(0xE1, changed)));
    };
    CHECK(with_byte(0, 'E') == kOk);
    CHECK(with_byte(6, 'M') == kIrregular);
    CHECK(with_byte(8, '+') == kIrregular);
    CHECK(with_byte(10, 60) == kIrregular);    // the directory lies outside
    CHECK(with_byte(14, 9) == kIrregular);     // more entries than there are
    CHECK(with_byte(18, 4) == kIrregular);     // another type for the resolution
    CHECK(with_byte(20, 2) == kIrregular);     // another count
    CHECK(with_byte(24, 0x27) == kIrregular);  // the value reaches outside
    CHECK(with_byte(32, 2) == kIrregular);
    CHECK(with_byte(27, 0x0F) == kIrregular);  // garbled
    for (std::size_t size = 0; size < exif.size(); ++size) {
        const Bytes cut(exif.begin(), exif.begin() + static_cast<std::ptrdiff_t>(size));
        CHECK(verdict(with_segment(segment(0xE1, cut))) == (size < 6 ? kOk : kIrregular));
    }
    const Bytes jfif_resolution = app(0xE0, "JFIF\0\1\1\1\0\1\0\1\0\0", 14);
    exif[10] = 60;
    const Bytes damaged = segment(0xE1, exif);
    CHECK(verdict(with_segment(joined({damaged, jfif_resolution}))) == kOk);  // the EXIF data are not read
    CHECK(verdict(with_segment(joined({damaged, damaged}))) == kIrregular);
}

TEST_CASE(markers_tell_the_orientation_where_all_readers_agree_about_it) {
    // A directory at 8 with two entries: the orientation and the unit of the resolution.
    const Bytes exif = text(
        "Exif\0\0II*\0\x08\0\0\0\x02\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\x28\x01\x03\0\x01\0\0\0\x02\0\0\0"
        "\0\0\0\0",
        44);
    const Bytes xmp = app(0xE1, "http://ns.adobe.com/xap/1.0/", 29);
    const Bytes resolution = app(0xE0, "JFIF\0\1\1\1\0\1\0\1\0\0", 14);  // so that the EXIF data are not checked for it
    const auto header = std::make_unique<Header>();
    // Expects 0 if readers may differ.
    const auto orientation = [&](const std::vector<Bytes>& segments) {
        Bytes all = resolution;
        for (const Bytes& one : segments) all.insert(all.end(), one.begin(), one.end());
        const Bytes file = with_segment(all);
        CHECK(read_header_segments(span_of(file), DecodeLimits{}, header.get()).is_ok());  // views the file
        int found = 0;
        return read_orientation(header->app, &found).is_ok() ? found : 0;
    };
    const auto with_byte = [&](std::size_t at, std::uint8_t value) {
        Bytes changed = exif;
        changed[at] = value;
        return orientation({segment(0xE1, changed)});
    };
    for (std::uint8_t value = 0; value < 12; ++value) {
        CHECK_EQUAL(with_byte(24, value), value >= 1 && value <= 8 ? value : 1);
    }
    CHECK_EQUAL(with_byte(16, 0x13), 1);  // another tag
    CHECK_EQUAL(with_byte(18, 4), 0);     // its type
    CHECK_EQUAL(with_byte(20, 2), 0);     // its count
    CHECK_EQUAL(with_byte(28, 0x12), 0);  // two values
    CHECK_EQUAL(with_byte(28, 0x11), 0);  // not in order
    CHECK_EQUAL(with_byte(14, 9), 0);     // more entries than there are
    CHECK_EQUAL(with_byte(10, 60), 0);    // the directory lies outside
    CHECK_EQUAL(with_byte(8, '+'), 0);
    CHECK_EQUAL(with_byte(0, 'x'), 0);  // EXIF data after a name that only some readers accept
    const Bytes plain = segment(0xE1, exif);
    CHECK_EQUAL(orientation({}), 1);
    CHECK_EQUAL(orientation({plain}), 6);
    CHECK_EQUAL(orientation({plain, xmp}), 6);
    CHECK_EQUAL(orientation({xmp}), 1);
    CHECK_EQUAL(orientation({xmp, plain}), 0);
    CHECK_EQUAL(orientation({segment(0xE1, {}), plain}), 0);
    CHECK_EQUAL(orientation({plain, plain}), 0);
    for (std::size_t size = 0; size < exif.size(); ++size) {
        const Bytes cut(exif.begin(), exif.begin() + static_cast<std::ptrdiff_t>(size));
        CHECK_EQUAL(orientation({segment(0xE1, cut)}), size < 6 ? 1 : 0);
    }
}

TEST_CASE(markers_between_scans_are_only_tables_and_comments) {
    const auto header = std::make_unique<Header>();
    CHECK(verdict(with({}, sof(0xC0, 16, 16, kColor420), sos({1})), header.get()) == kOk);
    const auto read = [&header](const Bytes& bytes, Tables* tables, bool* is_end) {
        Scan scan;
        std::size_t offset = 0;
        return read_segments_between_scans(span_of(bytes), &offset, header->frame, tables, &scan, is_end).code;
    };
    Tables tables;
    bool is_end = false;
    CHECK(read(kEoi, &tables, &is_end) == kOk && is_end);
    CHECK(read(joined({dqt(2, 9), segment(0xFE, {}), segment(0xDD, {0, 5}), dht(0x11, 3), sos({2})}), &tables,
               &is_end) == kOk);
    CHECK(!is_end && tables.quantization[2].values[0] == 9 && tables.restart_interval == 5 && tables.ac[1].is_defined);
    CHECK(read({}, &tables, &is_end) == kIrregular);
    CHECK(read({0xFF}, &tables, &is_end) == kIrregular);
    CHECK(read(sof(0xC0, 16, 16, kColor420), &tables, &is_end) == kIrregular);
    CHECK(read(segment(0xDC, {0, 16}), &tables, &is_end) == kIrregular);
    CHECK(read(sos({9}), &tables, &is_end) == kIrregular);
}

TEST_CASE(markers_take_the_bands_of_a_progressive_file) {
    const auto scan_verdict = [](int start, int end, int shifts) {
        return verdict(with({}, sof(0xC2, 16, 16, {{1, 0x11, 0}}), sos_band({1}, start, end, shifts)));
    };
    CHECK(scan_verdict(0, 0, 0x00) == kOk);
    CHECK(scan_verdict(0, 0, 0x0D) == kOk);
    CHECK(scan_verdict(0, 0, 0xDC) == kOk);
    CHECK(scan_verdict(1, 63, 0x02) == kOk);
    CHECK(scan_verdict(5, 5, 0x21) == kOk);
    CHECK(scan_verdict(0, 63, 0x00) == kIrregular);
    CHECK(scan_verdict(0, 1, 0x00) == kIrregular);
    CHECK(scan_verdict(6, 5, 0x00) == kIrregular);
    CHECK(scan_verdict(1, 64, 0x00) == kIrregular);
    CHECK(scan_verdict(1, 63, 0x0E) == kIrregular);
    CHECK(scan_verdict(1, 63, 0xED) == kOk);
    CHECK(scan_verdict(1, 63, 0xFE) == kIrregular);
    CHECK(scan_verdict(1, 63, 0x20) == kIrregular);
    CHECK(scan_verdict(1, 63, 0x11) == kIrregular);
    CHECK(scan_verdict(1, 63, 0x12) == kIrregular);
    const Bytes color = sof(0xC2, 16, 16, kColor420);
    CHECK(verdict(with({}, color, sos_band({1, 2, 3}, 0, 0, 0x01))) == kOk);
    CHECK(verdict(with({}, color, sos_band({2, 3}, 1, 5, 0x01))) == kIrregular);
    CHECK(verdict(with({}, color, sos_band({3}, 1, 5, 0x01))) == kOk);
    CHECK(verdict(with({}, sof(0xC0, 16, 16, kColor420), sos_band({3}, 1, 5, 0x01))) == kIrregular);
}

}  // namespace fastload::jpeg
