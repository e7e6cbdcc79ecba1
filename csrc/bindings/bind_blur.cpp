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

#include "bindings/bindings.h"
#include "bindings/dict_reader.h"
#include "bindings/read_steps.h"
#include "bindings/step_names.h"
#include "image/blur/gaussian_blur.h"
#include "image/blur/torch_gaussian.h"
#include "image/steps/step_checks.h"
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

FloatArray weights_of(const std::vector<float>& positions, const FloatArray& sigmas, const py::str& version,
                      std::size_t sum_lanes, std::shared_ptr<TorchGaussian> torch_gaussian) {
    GaussianBlur blur;
    blur.version = choose("weights", kDrawsNames, version);
    blur.sigma_from = blur.sigma_to = 1.0F;
    blur.columns = blur.rows = positions;
    blur.sum_lanes = sum_lanes;
    blur.torch_gaussian = std::move(torch_gaussian);
    const std::string problem = check_blur("blur", blur);
    if (!problem.empty()) throw py::value_error(problem);
    FloatArray weights({sigmas.size(), static_cast<py::ssize_t>(positions.size())});
    for (py::ssize_t i = 0; i < sigmas.size(); ++i) {
        compute_gaussian_weights(blur, positions, sigmas.data()[i], weights.mutable_data(i, 0));
    }
    return weights;
}

using PlanesArray = py::array_t<std::uint8_t, py::array::c_style>;

// Of the blur that a list of one step describes.
FloatArray sums_of(const py::list& steps, float sigma, const PlanesArray& planes) {
    if (planes.ndim() != 3 || planes.shape(0) != 3 || planes.shape(1) > kMaxImageSide ||
        planes.shape(2) > kMaxImageSide) {
        throw py::value_error("planes must be a contiguous uint8 array of shape [3, height, width]");
    }
    const std::vector<TransformStep> read = read_steps("steps", steps);
    if (read.size() != 1 || read[0].kind != TransformKind::kGaussianBlur)
        throw py::value_error("not one gaussian_blur");
    const auto height = static_cast<std::int32_t>(planes.shape(1));
    const auto width = static_cast<std::int32_t>(planes.shape(2));
    std::string problem = check_blur("steps[0]", read[0].blur);
    if (problem.empty() && !fits_blur(read[0].blur, {width, height})) problem = "the image is too small";
    if (!problem.empty()) throw py::value_error(problem);
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
    const Status status = blur_unrounded(read[0].blur, sigma, active_kernel_table().blur, source, sums.mutable_data(),
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
    m.def("gaussian_weights", &weights_of, py::arg("positions"), py::arg("sigmas"), py::kw_only(), py::arg("weights"),
          py::arg("sum_lanes"), py::arg("torch_gaussian").none(true),
          "The weights of one axis for each sigma, float32 [sigma, position].");
    m.def("gaussian_sums", &sums_of, py::arg("steps"), py::arg("sigma"), py::arg("planes"),
          "What the blur of `steps` comes to before it is rounded: float32 [3, height, at least width].");
    m.def(
        "has_fast_blur",
        [] {
            const KernelTable* table = select_kernel_table();
            return table != nullptr && table->has_fma;
        },
        "Whether blurs are faster than torch's: the active kernels have a fused multiply-add.");
}

}  // namespace fastload
