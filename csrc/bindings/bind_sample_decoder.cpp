#include "bindings/bind_sample_decoder.h"

#include <pybind11/numpy.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/bind_iteration.h"
#include "bindings/bindings.h"
#include "bindings/packed_pixels.h"
#include "bindings/without_gil.h"
#include "engine/sample/sample_decoder.h"

namespace py = pybind11;

namespace fastload {
namespace {

ByteSpan span_of(const py::bytes& data) {
    const auto view = static_cast<std::string_view>(data);
    return {reinterpret_cast<const std::uint8_t*>(view.data()), view.size()};
}

// Elements are bytes: [height, width, 3 * element size], or [3, height, width * element size].
py::array_t<std::uint8_t> array_of(DecodedSample sample, const OutputLayout& layout) {
    const py::ssize_t width = sample.size.width;
    const py::ssize_t height = sample.size.height;
    const py::ssize_t element_bytes = layout.element_size_bytes;
    std::vector<py::ssize_t> shape = {3, height, width * element_bytes};
    if (layout.channels_last) shape = {height, width, 3 * element_bytes};
    std::uint8_t* const bytes = sample.bytes.get();
    const py::capsule owner(bytes, [](void* memory) { delete[] static_cast<std::uint8_t*>(memory); });
    sample.bytes.release();
    return py::array_t<std::uint8_t>(std::move(shape), bytes, owner);
}

class SampleDecoderHandle {
  public:
    using Plan = std::shared_ptr<TransformPlan>;

    SampleDecoderHandle(std::uint64_t max_file_bytes, std::uint64_t max_pixels, bool is_native_jpeg_allowed)
        : decoder_(active_kernel_table(), options_of(max_file_bytes, max_pixels, is_native_jpeg_allowed)) {}
    SampleDecoderHandle(const SampleDecoderHandle&) = delete;  // scratch memory has one owner
    SampleDecoderHandle& operator=(const SampleDecoderHandle&) = delete;

    py::object run_file(const py::bytes& path, const Plan& plan, DrawSource& draws) {
        return run(plan, [&](DecodedSample* sample) { return decoder_.run(span_of(path), plan, &draws, sample); });
    }

    py::object run_bytes(const py::bytes& contents, const Plan& plan, DrawSource& draws) {
        return run(plan, [&](DecodedSample* sample) {
            return decoder_.run_with_contents(span_of(contents), plan, &draws, sample);
        });
    }

    py::object run_pixels(const py::buffer& pixels, std::int32_t width, std::int32_t height, const Plan& plan,
                          DrawSource& draws) {
        const PackedImageView rgb = view_packed(pixels, width, height);
        return run(plan, [&](DecodedSample* sample) { return decoder_.run_with_pixels(rgb, plan, &draws, sample); });
    }

    const char* fallback_reason() const noexcept { return fallback_reason_; }
    bool keeps_info() const noexcept { return decoder_.keeps_info(); }

    py::dict take_counters() {
        const SampleTimings timings = decoder_.take_timings();
        const auto seconds = [](std::uint64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; };
        py::dict stages;
        stages["read"] = seconds(timings.read_ns);
        stages["header"] = seconds(timings.header_ns);
        stages["decode"] = seconds(timings.decode_ns);
        stages["transform"] = seconds(timings.transform_ns);
        py::dict counters;
        counters["bytes_read"] = timings.bytes_read;
        counters["stage_seconds"] = std::move(stages);
        return counters;
    }

  private:
    static NativeWorkerOptions options_of(std::uint64_t max_file_bytes, std::uint64_t max_pixels,
                                          bool is_native_jpeg_allowed) {
        NativeWorkerOptions options;
        options.max_file_bytes = max_file_bytes;
        options.decode_limits.max_pixels = max_pixels;
        options.is_native_jpeg_allowed = is_native_jpeg_allowed;
        return options;
    }

    // What `make(sample)` makes, without the GIL.
    template <typename Make>
    py::object run(const Plan& plan, Make&& make) {
        if (is_busy_) throw std::logic_error("this decoder is at work in another thread");
        DecodedSample sample;
        is_busy_ = true;
        const Status status = without_gil([&] { return make(&sample); });
        is_busy_ = false;
        if (is_for_fallback(status.code)) {
            fallback_reason_ = status.detail;
            return py::none();
        }
        if (!status.is_ok()) return describe_failure(status);
        return array_of(std::move(sample), plan->layout());
    }

    SampleDecoder decoder_;
    const char* fallback_reason_ = "";
    bool is_busy_ = false;  // under the GIL
};

}  // namespace

void bind_sample_decoder(py::module_& m) {
    py::class_<SampleDecoderHandle>(m, "SampleDecoder",
                                    "Single samples, read, decoded and transformed in the calling thread without the "
                                    "GIL. One thread uses it.\n\n"
                                    "They come in an array of bytes of their own: [height, width, 3 * element size] "
                                    "where the plan is channels_last, else [3, height, width * element size]. None "
                                    "where Pillow has to decode: call run_pixels. A dict that says why there is none.")
        .def(py::init<std::uint64_t, std::uint64_t, bool>(), py::kw_only(), py::arg("max_file_bytes"),
             py::arg("max_pixels"), py::arg("native_jpeg"))
        .def("run_file", &SampleDecoderHandle::run_file, py::arg("path"), py::arg("plan"), py::arg("draws"))
        .def("run_bytes", &SampleDecoderHandle::run_bytes, py::arg("contents"), py::arg("plan"), py::arg("draws"))
        .def("run_pixels", &SampleDecoderHandle::run_pixels, py::arg("pixels"), py::arg("width"), py::arg("height"),
             py::arg("plan"), py::arg("draws"))
        .def_property_readonly("fallback_reason", &SampleDecoderHandle::fallback_reason)
        .def_property_readonly("keeps_info", &SampleDecoderHandle::keeps_info,
                               "Whether torchvision would still have Image.info behind what was last run.")
        .def("take_counters", &SampleDecoderHandle::take_counters, "bytes_read and stage_seconds since the last call.");
}

}  // namespace fastload
