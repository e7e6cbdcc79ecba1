#include "bindings/bind_codec.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "codec/jpeg/jpeg_decoder.h"
#include "codec/probe.h"
#include "kernels/dispatch.h"

namespace fastload {
namespace {

namespace py = pybind11;

const KernelTable& kernel_table() {
    const KernelTable* const table = select_kernel_table();
    if (table == nullptr) throw std::runtime_error("FASTLOAD_SIMD names a kernel table that is not available here");
    return *table;
}

ByteSpan span_of(const py::bytes& data) {
    const auto view = static_cast<std::string_view>(data);
    return {reinterpret_cast<const std::uint8_t*>(view.data()), view.size()};
}

const char* status_name(StatusCode code) {
    switch (code) {
        case StatusCode::kOk:
            return "ok";
        case StatusCode::kUnsupported:
            return "unsupported";
        case StatusCode::kIrregular:
            return "irregular";
        case StatusCode::kLimitExceeded:
            return "limit_exceeded";
        case StatusCode::kOutOfMemory:
            return "out_of_memory";
        default:
            return "unexpected";
    }
}

py::array_t<std::uint8_t> interleaved(const StripImageView& view) {
    py::array_t<std::uint8_t> pixels({view.height, view.width, std::int32_t{3}});
    std::uint8_t* next = pixels.mutable_data();
    for (std::int32_t y = 0; y < view.height; ++y) {
        for (std::int32_t x = 0; x < view.width; ++x) {
            for (int plane = 0; plane < 3; ++plane) *next++ = view.at(plane, x, y);
        }
    }
    return pixels;
}

py::dict probe_bytes(const py::bytes& data) {
    const ImageInfo info = probe(span_of(data));
    py::dict result;
    result["format"] = format_name(info.format);
    result["width"] = info.size.width;
    result["height"] = info.size.height;
    return result;
}

// With a decoder that is used once, so that every call shows what a fresh one does.
py::tuple decode_jpeg(const py::bytes& data, const std::optional<std::array<std::int32_t, 4>>& region,
                      std::uint64_t max_pixels, int max_scans) {
    DecodeLimits limits;
    limits.max_pixels = max_pixels;
    limits.max_scans = max_scans;
    const auto decoder = std::make_unique<JpegDecoder>(kernel_table(), limits);
    ImageInfo info;
    StripImageView view;
    Status status = decoder->read_header(span_of(data), &info);
    if (status.is_ok()) {
        Region wanted = {0, 0, info.size.width, info.size.height};
        if (region) wanted = {(*region)[0], (*region)[1], (*region)[2], (*region)[3]};
        if (!wanted.lies_inside(info.size.width, info.size.height)) {
            throw py::value_error("region does not lie inside the image");
        }
        status = decoder->decode(wanted, &view);
    }
    py::object pixels = py::none();
    if (status.is_ok()) pixels = interleaved(view);
    return py::make_tuple(pixels, status_name(status.code), status.detail, status.byte_offset);
}

}  // namespace

void bind_codec(py::module_& module) {
    const DecodeLimits defaults;
    module.def("probe", &probe_bytes, py::arg("data"),
               "Format and size from the first bytes of an image, without decoding: a dict of format, width, height.");
    module.def(
        "decode_jpeg", &decode_jpeg, py::arg("data"), py::arg("region") = py::none(),
        py::arg("max_pixels") = defaults.max_pixels, py::arg("max_scans") = defaults.max_scans,
        "Decodes a JPEG or a region (left, top, width, height) of it natively.\n\n"
        "Returns (pixels, status, detail, byte_offset): uint8 [height, width, 3] that own their memory, or None\n"
        "where status is not 'ok'. Raises ValueError where the region does not lie inside the image.");
}

}  // namespace fastload
