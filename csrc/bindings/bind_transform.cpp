#include "bindings/bind_transform.h"

#include <pybind11/numpy.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bind_steps.h"
#include "bindings/bindings.h"
#include "bindings/step_casters.h"
#include "image/plan/transform_executor.h"
#include "image/plan/transform_plan.h"

namespace fastload {
namespace {

namespace py = pybind11;

std::shared_ptr<TransformPlan> create_plan(Steps steps, int element_size, bool channels_last,
                                           const std::optional<py::bytes>& table, ResizeOrder resize_order,
                                           bool allow_variable_size) {
    OutputLayout layout;
    layout.element_size_bytes = element_size;
    layout.channels_last = channels_last;
    if (table) {
        const auto bytes = table->cast<std::string>();
        if (bytes.empty()) throw py::value_error("table must be None or not empty");
        layout.table.assign(bytes.begin(), bytes.end());
    }
    std::string problem;
    auto plan =
        TransformPlan::create(std::move(steps), std::move(layout), {resize_order, allow_variable_size}, &problem);
    if (plan == nullptr) throw py::value_error(problem);
    return plan;
}

void check(const Status& status) {
    if (status.is_ok()) return;
    if (status.code == StatusCode::kOutOfMemory) throw std::bad_alloc();
    throw py::value_error(std::string(status_text(status.code)) + ": " + status.detail);
}

py::list resolve(const TransformPlan& plan, DrawSource& draws, std::int32_t width, std::int32_t height) {
    ResolvedTransform resolved;
    check(plan.resolve(&draws, {width, height}, &resolved));
    return list_reports(resolved.operations);
}

using RgbArray = py::array_t<std::uint8_t>;

PackedImageView view_rgb(const RgbArray& pixels) {
    const bool is_hwc = pixels.ndim() == 3 && pixels.shape(2) == 3 && (pixels.flags() & py::array::c_style) != 0;
    if (!is_hwc || pixels.shape(0) > kMaxImageSide || pixels.shape(1) > kMaxImageSide) {
        throw py::value_error(
            "pixels must be a contiguous uint8 array of shape [height, width, 3] with sides up to 65535, "
            "got shape " +
            std::string(py::repr(pixels.attr("shape"))));
    }
    return {pixels.data(), static_cast<std::size_t>(3 * pixels.shape(1)), static_cast<std::int32_t>(pixels.shape(1)),
            static_cast<std::int32_t>(pixels.shape(0))};
}

// A sample of any size, aligned for every element size.
struct Sample {
    std::vector<std::uint64_t> words;
    std::size_t bytes = 0;
};

Status transform_packed(const TransformPlan& plan, const PackedImageView& rgb, DrawSource* draws,
                        const KernelTable& kernels, Sample* sample) {
    TransformExecutor executor(kernels);
    StripImageView strips;
    ResolvedTransform resolved;
    Status status = executor.load_packed(rgb, &strips);
    if (status.is_ok()) status = plan.resolve(draws, {rgb.width, rgb.height}, &resolved);
    if (!status.is_ok()) return status;
    if (!plan.count_bytes(resolved.output_size, &sample->bytes)) return {StatusCode::kOutOfMemory, 0, 0, ""};
    sample->words.resize((sample->bytes + 7) / 8);
    return executor.run(plan, resolved, strips.crop(resolved.source_region), sample->words.data());
}

py::bytes apply(const TransformPlan& plan, const RgbArray& pixels, DrawSource& draws) {
    const KernelTable& kernels = active_kernel_table();
    const PackedImageView view = view_rgb(pixels);
    Sample sample;
    Status status;
    {
        py::gil_scoped_release released;
        status = transform_packed(plan, view, &draws, kernels, &sample);
    }
    check(status);
    return {reinterpret_cast<const char*>(sample.words.data()), sample.bytes};
}

// None where samples differ in size.
template <typename Value>
py::object if_fixed(const TransformPlan& plan, Value value) {
    return plan.has_fixed_size() ? py::cast(value) : py::none();
}

}  // namespace

void bind_transform(py::module_& m) {
    py::class_<TransformPlan, std::shared_ptr<TransformPlan>>(
        m, "TransformPlan",
        "Steps on images and the last write, checked and immutable. Raises ValueError where an argument makes no sense "
        "or the result has no fixed size and none is allowed.")
        .def(py::init(&create_plan), py::arg("steps"), py::kw_only(), py::arg("element_size"), py::arg("channels_last"),
             py::arg("table"), py::arg("resize_order"), py::arg("allow_variable_size") = false)
        .def_property_readonly("output_height",
                               [](const TransformPlan& plan) { return if_fixed(plan, plan.output_size().height); })
        .def_property_readonly("output_width",
                               [](const TransformPlan& plan) { return if_fixed(plan, plan.output_size().width); })
        .def_property_readonly("sample_bytes",
                               [](const TransformPlan& plan) { return if_fixed(plan, plan.sample_bytes()); })
        .def_property_readonly("is_random", &TransformPlan::is_random)
        .def("resolve", &resolve, py::arg("draws"), py::arg("width"), py::arg("height"),
             "What is done to one sample, as fastload.SampleReport.steps tells it.")
        .def("apply", &apply, py::arg("pixels").noconvert(), py::arg("draws"),
             "The bytes of one sample made from a whole decoded image (uint8 [height, width, 3]).");
}

}  // namespace fastload
