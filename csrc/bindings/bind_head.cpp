#include "bindings/bind_head.h"

#include <pybind11/numpy.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bind_iteration.h"
#include "bindings/bindings.h"
#include "bindings/packed_pixels.h"
#include "bindings/without_gil.h"
#include "engine/sample/sample_head.h"
#include "io/sample_index.h"

namespace py = pybind11;

namespace fastload {
namespace {

// Elements are bytes: [height, width, 3 * element size], or [3, height, width * element size].
py::array_t<std::uint8_t> array_of(HeadResult result, const OutputLayout& layout) {
    const py::ssize_t width = result.size.width;
    const py::ssize_t height = result.size.height;
    const py::ssize_t element_bytes = layout.element_size_bytes;
    std::vector<py::ssize_t> shape = {3, height, width * element_bytes};
    if (layout.channels_last) shape = {height, width, 3 * element_bytes};
    std::uint8_t* const bytes = result.bytes.get();
    const py::capsule owner(bytes, [](void* memory) { delete[] static_cast<std::uint8_t*>(memory); });
    result.bytes.release();
    return py::array_t<std::uint8_t>(std::move(shape), bytes, owner);
}

class PythonSampleHead {
  public:
    PythonSampleHead(std::uint64_t max_file_bytes, std::uint64_t max_pixels, bool is_native_jpeg_allowed)
        : head_(active_kernel_table(), options_of(max_file_bytes, max_pixels, is_native_jpeg_allowed)) {}
    PythonSampleHead(const PythonSampleHead&) = delete;  // scratch memory has one owner
    PythonSampleHead& operator=(const PythonSampleHead&) = delete;

    py::object run(const SampleIndex& index, const TransformPlan& plan, std::int64_t sample_index, DrawSource& draws) {
        if (sample_index < 0 || sample_index >= index.num_samples()) {
            throw py::index_error("sample index " + std::to_string(sample_index) + " is not in [0, " +
                                  std::to_string(index.num_samples()) + ")");
        }
        HeadResult result;
        PathBuffer buffer;
        const Status status =
            without_gil([&] { return head_.run(index.path(sample_index, &buffer), plan, &draws, &result); });
        if (is_for_fallback(status.code)) {
            fallback_reason_ = status.detail;
            return py::none();
        }
        return outcome(status, std::move(result), plan);
    }

    py::object run_pixels(const TransformPlan& plan, const py::buffer& pixels, std::int32_t width, std::int32_t height,
                          DrawSource& draws) {
        const PackedImageView rgb = view_packed(pixels, width, height);
        HeadResult result;
        const Status status = without_gil([&] { return head_.run_with_pixels(rgb, plan, &draws, &result); });
        return outcome(status, std::move(result), plan);
    }

    std::string fallback_reason() const { return fallback_reason_; }
    bool keeps_info() const noexcept { return head_.keeps_info(); }

    py::dict take_counters() {
        const SampleTimings timings = head_.take_timings();
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

    static py::object outcome(const Status& status, HeadResult result, const TransformPlan& plan) {
        if (!status.is_ok()) return describe_failure(status);
        return array_of(std::move(result), plan.layout());
    }

    SampleHead head_;
    const char* fallback_reason_ = "";
};

}  // namespace

void bind_head(py::module_& m) {
    py::class_<PythonSampleHead>(m, "SampleHead",
                                 "Single samples, read, decoded and transformed in the calling thread without the GIL. "
                                 "One thread uses it.")
        .def(py::init<std::uint64_t, std::uint64_t, bool>(), py::kw_only(), py::arg("max_file_bytes"),
             py::arg("max_pixels"), py::arg("native_jpeg"))
        .def("run", &PythonSampleHead::run, py::arg("index"), py::arg("plan"), py::arg("sample_index"),
             py::arg("draws"),
             "The sample as bytes, in an array of its own: [height, width, 3 * element size] where the plan is\n"
             "channels_last, else [3, height, width * element size]. None where Pillow has to decode it: call\n"
             "run_pixels. A dict that says why there is none.")
        .def("run_pixels", &PythonSampleHead::run_pixels, py::arg("plan"), py::arg("pixels"), py::arg("width"),
             py::arg("height"), py::arg("draws"))
        .def_property_readonly("fallback_reason", &PythonSampleHead::fallback_reason)
        .def_property_readonly("keeps_info", &PythonSampleHead::keeps_info,
                               "Whether torchvision would still have Image.info behind what was last run.")
        .def("take_counters", &PythonSampleHead::take_counters, "bytes_read and stage_seconds since the last call.");
}

}  // namespace fastload
