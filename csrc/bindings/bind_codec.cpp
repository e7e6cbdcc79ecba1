#include "bindings/bind_codec.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/without_gil.h"
#include "codec/jpeg/jpeg_decoder.h"
#include "codec/probe.h"

namespace fastload {
namespace {

namespace py = pybind11;

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

// A copy of the pixels: [height, width, 3], or [3, height, width] where `is_planar`.
py::array_t<std::uint8_t> array_of(const StripImageView& view, bool is_planar) {
    const std::vector<py::ssize_t> planar = {3, view.height, view.width};
    const std::vector<py::ssize_t> interleaved = {view.height, view.width, 3};
    py::array_t<std::uint8_t> pixels(is_planar ? planar : interleaved);
    ConvertJob job;
    job.width = view.width;
    job.height = view.height;
    job.is_channels_last = !is_planar;
    const KernelTable& kernels = active_kernel_table();
    std::uint8_t* const destination = pixels.mutable_data();
    without_gil([&] {
        kernels.convert_strips(view, job, destination);
        return true;
    });
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
    const auto decoder = std::make_unique<JpegDecoder>(active_kernel_table(), limits);
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
    if (status.is_ok()) pixels = array_of(view, false);
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
