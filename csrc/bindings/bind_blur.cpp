#include "bindings/bind_blur.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bind_fields.h"
#include "bindings/bind_steps.h"
#include "bindings/bindings.h"
#include "bindings/step_casters.h"
#include "image/blur/torch_gaussian.h"
#include "image/plan/image_sides.h"
#include "image/steps/gaussian_blur.h"
#include "kernels/dispatch.h"

namespace fastload {
namespace {

namespace py = pybind11;

using FloatArray = py::array_t<float, py::array::c_style>;

std::shared_ptr<TorchGaussian> make_torch_gaussian(float from, float to) {
    if (!(from > 0.0F) || !std::isfinite(to)) throw py::value_error("the numbers must be positive and finite");
    return std::make_shared<TorchGaussian>(from, to);
}

FloatArray gaussian_exponents(const TorchGaussian& table, std::size_t first, std::size_t count) {
    if (first > table.count() || count > table.count() - first) {
        throw py::value_error("first + count must be at most " + std::to_string(table.count()));
    }
    FloatArray exponents(static_cast<py::ssize_t>(count));
    table.fill_exponents(first, count, exponents.mutable_data());
    return exponents;
}

bool add_gaussian_values(TorchGaussian& table, std::size_t first, const FloatArray& values) {
    const Span<const float> span(values.data(), static_cast<std::size_t>(values.size()));
    if (first > table.count() || span.size() > table.count() - first) throw py::value_error("too many values");
    const py::gil_scoped_release released;
    return table.add(first, span);
}

FloatArray weights_of(const GaussianBlur& blur, const std::vector<float>& positions, const FloatArray& sigmas) {
    if (positions.empty() || positions.size() > kMaxBlurSize) {
        throw py::value_error("there must be 1..127 positions, got " + std::to_string(positions.size()));
    }
    FloatArray weights({sigmas.size(), static_cast<py::ssize_t>(positions.size())});
    for (py::ssize_t i = 0; i < sigmas.size(); ++i) {
        compute_gaussian_weights(blur, positions, sigmas.data()[i], weights.mutable_data(i, 0));
    }
    return weights;
}

using PlanesArray = py::array_t<std::uint8_t, py::array::c_style>;

FloatArray sums_of(const GaussianBlur& blur, float sigma, const PlanesArray& planes) {
    if (planes.ndim() != 3 || planes.shape(0) != 3 || planes.shape(1) > kMaxImageSide ||
        planes.shape(2) > kMaxImageSide) {
        throw py::value_error("planes must be a contiguous uint8 array of shape [3, height, width]");
    }
    const auto height = static_cast<std::int32_t>(planes.shape(1));
    const auto width = static_cast<std::int32_t>(planes.shape(2));
    if (!fits_blur(blur, {width, height})) throw py::value_error("the image is too small");
    PlanarImageView source;
    source.row_stride_bytes = static_cast<std::size_t>(width);
    source.width = width;
    source.height = height;
    for (int plane = 0; plane < 3; ++plane) source.planes[plane] = const_cast<std::uint8_t*>(planes.data(plane, 0, 0));
    const py::ssize_t stride = (width + static_cast<py::ssize_t>(kBlurColumnAlignment) - 1) /
                               static_cast<py::ssize_t>(kBlurColumnAlignment) *
                               static_cast<py::ssize_t>(kBlurColumnAlignment);
    FloatArray sums({py::ssize_t{3}, py::ssize_t{height}, stride});
    AlignedBuffer scratch;
    const Status status = blur_unrounded(blur, sigma, active_kernel_table().blur, source, sums.mutable_data(),
                                         static_cast<std::size_t>(stride), &scratch);
    if (!status.is_ok()) throw std::bad_alloc();
    return sums;
}

}  // namespace

void bind_blur(py::module_& m) {
    py::class_<TorchGaussian, std::shared_ptr<TorchGaussian>>(m, "TorchGaussian")
        .def(py::init(&make_torch_gaussian), py::arg("low"), py::arg("high"))
        .def("__len__", &TorchGaussian::count)
        .def("exponents", &gaussian_exponents, py::arg("first"), py::arg("count"))
        .def("add", &add_gaussian_values, py::arg("first"), py::arg("values"))
        .def("value", &TorchGaussian::operator(), py::arg("number"))
        .def_property_readonly("num_corrections", &TorchGaussian::num_corrections);
    bind_fields(StepClass<GaussianBlur>(m, "GaussianBlur"), field<&GaussianBlur::sigma>("sigma"),
                field<&GaussianBlur::columns>("columns"), field<&GaussianBlur::rows>("rows"),
                field<&GaussianBlur::family>("family"), field<&GaussianBlur::sum_lanes>("sum_lanes"),
                field<&GaussianBlur::torch_gaussian>("torch_gaussian"));
    m.attr("MAX_BLUR_SIZE") = kMaxBlurSize;
    m.def("gaussian_weights", &weights_of, py::arg("blur"), py::arg("positions"), py::arg("sigmas"),
          "The weights of one axis for each sigma, float32 [sigma, position].");
    m.def("gaussian_sums", &sums_of, py::arg("blur"), py::arg("sigma"), py::arg("planes"),
          "What the blur comes to before it is rounded: float32 [3, height, at least width].");
    m.def(
        "has_fast_blur",
        [] {
            const KernelTable* table = select_kernel_table();
            return table != nullptr && table->has_fma;
        },
        "Whether blurs are faster than torch's: the active kernels have a fused multiply-add.");
}

}  // namespace fastload
