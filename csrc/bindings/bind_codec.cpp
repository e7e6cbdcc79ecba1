// Decoding by itself, of images in memory.
#include "bindings/pybind.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "base/content_hash.h"
#include "bindings/bindings.h"
#include "codec/jpeg/coefficient_writer.h"
#include "codec/jpeg/jpeg_decoder.h"
#include "codec/jpeg/record_reader.h"
#include "python/without_gil.h"

namespace py = pybind11;

namespace fastload {
namespace {

using Rectangle = std::array<std::int32_t, 4>;  // left, top, width, height

Region region_of(const Rectangle& rectangle, ImageSize image) {
    const auto [left, top, width, height] = rectangle;
    const Region region = {left, top, width, height};
    if (region.lies_inside(image.width, image.height)) return region;
    throw py::value_error("region does not lie inside the image");
}

const char* name_of(StatusCode code) {
    constexpr std::pair<StatusCode, const char*> kNames[] = {{StatusCode::kOk, "ok"},
                                                             {StatusCode::kUnsupported, "unsupported"},
                                                             {StatusCode::kIrregular, "irregular"},
                                                             {StatusCode::kLimitExceeded, "limit_exceeded"},
                                                             {StatusCode::kOutOfMemory, "out_of_memory"}};
    for (const auto& [named, name] : kNames) {
        if (named == code) return name;
    }
    return "unexpected";
}

// Copies the pixels: [height, width, 3], None after a failure.
py::object array_of(const Status& status, const StripImageView& view) {
    if (!status.is_ok()) return py::none();
    py::array_t<std::uint8_t> pixels(std::vector<py::ssize_t>{view.height, view.width, 3});
    ConvertJob job;
    job.width = view.width;
    job.height = view.height;
    job.is_channels_last = true;
    const KernelTable& kernels = active_kernel_table();
    std::uint8_t* const destination = pixels.mutable_data();
    without_gil([&] { kernels.convert_strips(view, job, destination); });
    return pixels;
}

// Uses a decoder once, so that every call shows the behaviour of a fresh one. With a `record` (empty: knows nothing) it
// decodes with an index that starts from it, and also returns the record of what is known afterwards, None if the file
// has no index, and whether the given one was of other data.
py::tuple decode_jpeg(const py::bytes& data, const std::optional<Rectangle>& region, std::uint64_t max_pixels,
                      int max_scans, const std::optional<py::bytes>& record, bool is_dense) {
    DecodeLimits limits;
    limits.max_pixels = max_pixels;
    limits.max_scans = max_scans;
    const auto decoder = std::make_unique<JpegDecoder>(active_kernel_table(), limits);
    ImageInfo info;
    StripImageView view;
    jpeg::ScanShape shape;
    jpeg::EntropyIndex index;
    Status status = decoder->read_header(span_of(data), &info);
    const bool has_index = record && status.is_ok() && decoder->scan_shape(&shape);
    if (has_index) {
        const jpeg::IndexLevel level = is_dense ? jpeg::IndexLevel::kDense : jpeg::IndexLevel::kRows;
        if (!index.begin(shape, level).is_ok()) throw std::bad_alloc();
        const ByteSpan packed = span_of(*record);
        if (!packed.is_empty() && !index.unpack(shape, packed))
            throw py::value_error("the record does not belong to this scan");
    }
    if (status.is_ok()) {
        const Rectangle whole = {0, 0, info.size.width, info.size.height};
        status = decoder->decode(region_of(region.value_or(whole), info.size), has_index ? &index : nullptr, &view);
    }
    py::object known = py::none();
    if (has_index) {
        std::vector<std::uint8_t> packed(std::size_t{1} << 20);
        const std::size_t size = index.pack({packed.data(), packed.size()});
        known = bytes_of({packed.data(), size});
    }
    return py::make_tuple(array_of(status, view), name_of(status.code), status.detail, status.byte_offset, known,
                          decoder->was_index_wrong());
}

// The record of a file's coefficients, None if it has none, and the status of reading them.
py::tuple record_coefficients(const py::bytes& data, const py::bytes& key, std::uint64_t salt) {
    const KernelTable& kernels = active_kernel_table();
    const auto decoder = std::make_unique<JpegDecoder>(kernels, DecodeLimits{});
    jpeg::CoefficientWriter writer(kernels);
    ImageInfo info;
    Status status = decoder->read_header(span_of(data), &info);
    if (status.is_ok()) status = decoder->read_coefficients(&writer);
    py::object record = py::none();
    if (status.is_ok()) record = bytes_of(writer.finish(*hash_key_of(key), salt, {}));
    return py::make_tuple(record, name_of(status.code), status.detail);
}

// Decodes a region from a record.
py::tuple decode_coefficients(const py::bytes& record, const Rectangle& region, const py::bytes& key,
                              std::uint64_t salt) {
    const std::unique_ptr<const HashKey> secret = hash_key_of(key);
    const auto decoder = std::make_unique<JpegDecoder>(active_kernel_table(), DecodeLimits{});
    const auto reader = std::make_unique<jpeg::RecordReader>();
    jpeg::MemoryBytes bytes(span_of(record));
    Status status = reader->open(&bytes, *secret, salt, DecodeLimits{});
    StripImageView view;
    if (status.is_ok()) {
        const Region wanted = region_of(region, reader->frame().size);
        status = reader->read_rows(&bytes, *secret, wanted);
        if (status.is_ok()) status = decoder->decode_record(*reader, wanted, &view);
    }
    return py::make_tuple(array_of(status, view), name_of(status.code), status.detail);
}

}  // namespace

void bind_codec(py::module_& m) {
    const DecodeLimits defaults;
    m.def(
        "decode_jpeg", &decode_jpeg, py::arg("data"), py::arg("region") = py::none(),
        py::arg("max_pixels") = defaults.max_pixels, py::arg("max_scans") = defaults.max_scans,
        py::arg("record") = py::none(), py::arg("is_dense") = false,
        "Decodes a JPEG or a region (left, top, width, height) of it natively.\n\n"
        "Returns (pixels, status, detail, byte_offset, record, was_index_wrong): uint8 [height, width, 3], which owns\n"
        "its memory, or None if status is not 'ok'. Raises ValueError if the region does not lie inside the image.");
    m.def("record_coefficients", &record_coefficients, py::arg("data"), py::arg("key"), py::arg("salt") = 0);
    m.def("decode_coefficients", &decode_coefficients, py::arg("record"), py::arg("region"), py::arg("key"),
          py::arg("salt") = 0);
}

}  // namespace fastload
