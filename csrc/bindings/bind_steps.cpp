#include "bindings/bind_steps.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "bindings/bind_fields.h"
#include "image/plan/resolved_transform.h"

namespace fastload {
namespace {

namespace py = pybind11;

// (height, width), as torchvision writes sizes.
using Sides = std::pair<std::int64_t, std::int64_t>;

std::optional<Sides> sides_after(const Step& step, const std::optional<Sides>& before) {
    std::optional<ImageSize> size;
    if (before) {
        const LongSize wanted(before->second, before->first);
        if (!wanted.is_possible()) throw py::value_error("size must be that of an image");
        size = wanted.as_image_size();
    }
    const std::optional<LongSize> after = step.size_after(size);
    return after ? std::optional<Sides>({after->height, after->width}) : std::nullopt;
}

std::shared_ptr<Step> complete(const std::shared_ptr<Step>& step,
                               const std::function<std::shared_ptr<TorchExp>(float, float)>& find) {
    std::shared_ptr<Step> completed = step->with_torch_exp(find);
    return completed == nullptr ? step : completed;
}

// In Python's types.
struct ToPython {
    py::object operator()(const char* word) const { return py::str(word); }
    py::object operator()(std::int64_t number) const { return py::int_(number); }
    py::object operator()(double number) const { return py::float_(number); }
    py::object operator()(const RgbFill& fill) const { return py::make_tuple(fill[0], fill[1], fill[2]); }
    py::object operator()(ByteSpan bytes) const {
        return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
};

}  // namespace

py::list list_reports(const OperationList& operations) {
    py::list reports;
    for (std::size_t i = 0; i < operations.size(); ++i) {
        py::list values;
        for (const auto& value : operations[i].report()) values.append(std::visit(ToPython(), value));
        reports.append(py::tuple(values));
    }
    return reports;
}

void bind_steps(py::module_& m) {
    py::class_<PixelOp, std::shared_ptr<PixelOp>> op(m, "PixelOp");
    compare_by_fields(op);
    py::class_<Step, std::shared_ptr<Step>> step(m, "Step");
    compare_by_fields(step);
    step.def("size_after", &sides_after, py::arg("size").none(true))
        .def("with_torch_exp", &complete, py::arg("find"))
        .def_property_readonly("max_operations", &Step::max_operations);
    bind_pixel_ops(m);
    bind_size_steps(m);
    bind_random_steps(m);
    bind_policies(m);
    m.attr("MAX_IMAGE_SIDE") = kMaxImageSide;
    m.attr("MAX_OPERATIONS") = kMaxOperations;
}

}  // namespace fastload
