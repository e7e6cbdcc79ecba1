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
#include "io/file_reader.h"

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

// Reader and decoder of one Python thread, with scratch memory that stays. Gives None wherever the reference decoder
// has to say what the image is or why there is none.
class ImageDecoder {
  public:
    ImageDecoder(std::uint64_t max_file_bytes, std::uint64_t max_pixels)
        : max_file_bytes_(max_file_bytes), decoder_(active_kernel_table(), limits_of(max_pixels)) {}
    ImageDecoder(const ImageDecoder&) = delete;  // scratch memory has one owner
    ImageDecoder& operator=(const ImageDecoder&) = delete;

    py::object decode_file(const py::bytes& path, bool is_planar) {
        return decode(is_planar, [&](ByteSpan* file) { return reader_.read(span_of(path), max_file_bytes_, file); });
    }

    py::object decode_bytes(const py::bytes& data, bool is_planar) {
        return decode(is_planar, [&](ByteSpan* file) {
            *file = span_of(data);
            return Status::ok();
        });
    }

  private:
    static DecodeLimits limits_of(std::uint64_t max_pixels) {
        DecodeLimits limits;
        limits.max_pixels = max_pixels;
        return limits;
    }

    template <typename Load>
    py::object decode(bool is_planar, Load&& load) {
        // A finalizer that Python runs at the allocation of the result may come here again in the same thread.
        if (is_busy_) return py::none();
        const Busy busy(&is_busy_);
        StripImageView view;
        const Status status = without_gil([&] {
            ByteSpan file;
            ImageInfo info;
            if (const Status loaded = load(&file); !loaded.is_ok()) return loaded;
            if (const Status header = decoder_.read_header(file, &info); !header.is_ok()) return header;
            return decoder_.decode({0, 0, info.size.width, info.size.height}, &view);
        });
        if (!status.is_ok()) return py::none();
        return array_of(view, is_planar);
    }

    class Busy {
      public:
        explicit Busy(bool* flag) noexcept : flag_(flag) { *flag_ = true; }
        ~Busy() { *flag_ = false; }
        Busy(const Busy&) = delete;  // a scope, not a value
        Busy& operator=(const Busy&) = delete;

      private:
        bool* const flag_;
    };

    const std::uint64_t max_file_bytes_;
    FileReader reader_;
    JpegDecoder decoder_;
    bool is_busy_ = false;
};

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
    py::class_<ImageDecoder>(module, "ImageDecoder")
        .def(py::init<std::uint64_t, std::uint64_t>(), py::kw_only(), py::arg("max_file_bytes"), py::arg("max_pixels"))
        .def("decode_file", &ImageDecoder::decode_file, py::arg("path"), py::arg("is_planar"))
        .def("decode_bytes", &ImageDecoder::decode_bytes, py::arg("data"), py::arg("is_planar"));
}

}  // namespace fastload
