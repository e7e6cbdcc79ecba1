// Pillow's images.
#include "bindings/pybind.h"

#include <string>

#include "bindings/bindings.h"
#include "codec/jpeg/plain_header.h"

namespace py = pybind11;

namespace fastload {
namespace {

// Puts `after` at `key` if `before` is there; returns false if something else is. Atomic for other threads.
bool exchange_item(const py::dict& items, const py::str& key, const py::object& before, const py::object& after) {
    bool is_exchanged = false;
    int error = 0;
    // The old value is released at the end, because that may run code.
    py::object held;
#ifdef Py_GIL_DISABLED
    Py_BEGIN_CRITICAL_SECTION(items.ptr());
#endif
    held = py::reinterpret_borrow<py::object>(PyDict_GetItemWithError(items.ptr(), key.ptr()));
    is_exchanged = held.ptr() == before.ptr();
    if (is_exchanged) error = PyDict_SetItem(items.ptr(), key.ptr(), after.ptr());
#ifdef Py_GIL_DISABLED
    Py_END_CRITICAL_SECTION();
#endif
    if (error != 0 || (held.ptr() == nullptr && PyErr_Occurred() != nullptr)) throw py::error_already_set();
    return is_exchanged;
}

int big16(ByteSpan bytes, std::size_t at) { return bytes[at] * 256 + bytes[at + 1]; }

// The attributes of Pillow's JpegImageFile that its parser sets, from the segments of a plain header.
class PlainAttributes {
  public:
    explicit PlainAttributes(const py::dict& attributes) : attributes_(attributes), info_(attributes["info"]) {}

    void set(const jpeg::PlainHeader& header) {
        for (int i = 0; i < header.segment_count; ++i) take(header.segments[i]);
        attributes_["bits"] = 8;
        attributes_["layers"] = header.component_count;
        attributes_["_exif_offset"] = exif_offset_;
        attributes_["layer"] = layers_;
        attributes_["_huffman_dc"] = py::dict();
        attributes_["_huffman_ac"] = py::dict();
        attributes_["quantization"] = tables_;
        attributes_["app"] = app_;
        attributes_["applist"] = app_list_;
        attributes_["icclist"] = profiles_;
        attributes_["_size"] = py::make_tuple(header.size.width, header.size.height);
        attributes_["_mode"] = header.component_count == 1 ? "L" : "RGB";
    }

  private:
    void take(const jpeg::Segment& segment) {
        if (segment.code == jpeg::marker::kDqt) return take_tables(segment.payload);
        if (segment.code >= jpeg::marker::kSof0 && segment.code <= jpeg::marker::kSof2) return take_frame(segment);
        const py::bytes payload = bytes_of(segment.payload);
        const py::str name =
            segment.code == jpeg::marker::kCom ? "COM" : "APP" + std::to_string(segment.code - jpeg::marker::kApp0);
        app_[name] = payload;
        app_list_.append(py::make_tuple(name, payload));
        if (segment.code == jpeg::marker::kCom) info_["comment"] = payload;
        if (jpeg::is_jfif(segment)) take_jfif(segment.payload);
        if (jpeg::is_exif(segment)) {
            info_["exif"] = payload;
            constexpr std::size_t kBeforePayload = 4;
            constexpr std::size_t kExifPrefix = 6;
            exif_offset_ = segment.offset + kBeforePayload + kExifPrefix;
        }
        if (jpeg::is_xmp(segment)) info_["xmp"] = behind(segment, 29);
        if (jpeg::is_icc_profile(segment)) profiles_.append(payload);
        if (jpeg::is_adobe(segment)) {
            info_["adobe"] = big16(segment.payload, 5);
            info_["adobe_transform"] = segment.payload[11];
        }
    }

    void take_jfif(ByteSpan payload) {
        info_["jfif"] = big16(payload, 5);
        info_["jfif_version"] = py::make_tuple(payload[5], payload[6]);
        const py::tuple density = py::make_tuple(big16(payload, 8), big16(payload, 10));
        if (payload[7] == 1) info_["dpi"] = density;
        info_["jfif_unit"] = payload[7];
        info_["jfif_density"] = density;
    }

    void take_tables(ByteSpan payload) {
        for (std::size_t at = 0; at != payload.size(); at += jpeg::kPlainTableBytes) {
            std::uint8_t values[64];
            jpeg::order_naturally(payload.data() + at + 1, values);
            py::list table(64);
            for (std::size_t i = 0; i < 64; ++i) table[i] = values[i];
            tables_[py::int_(payload[at] & 15)] = table;
        }
    }

    void take_frame(const jpeg::Segment& segment) {
        if (segment.code == jpeg::marker::kSof2) {
            info_["progressive"] = 1;
            info_["progression"] = 1;
        }
        if (!profiles_.empty()) {
            const ByteSpan profile = span_of(profiles_[0].cast<py::bytes>());
            // A part of a larger one.
            info_["icc_profile"] =
                profile[13] == 1 ? py::object(bytes_of(profile.subspan(14, profile.size() - 14))) : py::none();
            profiles_ = py::list();
        }
        const ByteSpan payload = segment.payload;
        for (std::size_t at = 6; at != payload.size(); at += 3) {
            layers_.append(py::make_tuple(payload[at], payload[at + 1] >> 4, payload[at + 1] & 15, payload[at + 2]));
        }
    }

    static py::bytes behind(const jpeg::Segment& segment, std::size_t count) {
        return bytes_of(segment.payload.subspan(count, segment.payload.size() - count));
    }

    py::dict attributes_;
    py::dict info_;
    std::size_t exif_offset_ = 0;
    py::list layers_;
    py::dict tables_;
    py::dict app_;
    py::list app_list_;
    py::list profiles_;
};

// The length of the header at the start of `contents`; None if it is not plain, and then nothing has changed.
py::object read_plain_header(const py::dict& attributes, const py::bytes& contents) {
    jpeg::PlainHeader header;
    if (!jpeg::read_plain_header(span_of(contents), &header)) return py::none();
    PlainAttributes(attributes).set(header);
    return py::int_(header.end);
}

}  // namespace

void bind_images(py::module_& m) {
    m.def("exchange_item", &exchange_item, py::arg("items"), py::arg("key"), py::arg("before"), py::arg("after"),
          "Replaces `before` by `after` at `key` of a dict, atomically. Returns whether `before` was there.");
    m.def("read_plain_header", &read_plain_header, py::arg("attributes"), py::arg("contents"),
          "Sets the attributes that Pillow's parser sets. Returns the header's length, or None if it is not plain.");
}

}  // namespace fastload
