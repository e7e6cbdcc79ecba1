// Random draws, and the tables and parts of GaussianBlur that Python compares with torch before it trusts them: for
// loaders, for transforms that end in Python, and for tests.
#include "bindings/pybind.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/base64.h"
#include "base/counter_rng.h"
#include "bindings/bindings.h"
#include "bindings/class.h"
#include "image/blur/torch_gaussian.h"
#include "image/plan/image_sides.h"
#include "image/random/draw_source.h"
#include "image/random/torch_exp.h"
#include "image/steps/blurs.h"
#include "kernels/dispatch.h"

namespace py = pybind11;

namespace fastload {
namespace {

using FloatArray = py::array_t<float, py::array::c_style>;
using ByteArray = py::array_t<std::uint8_t, py::array::c_style>;

std::vector<std::uint32_t> words_of(const py::bytes& text) {
    const ByteSpan bytes = span_of(text);
    std::vector<std::uint32_t> words(bytes.size() / sizeof(std::uint32_t));
    if (!words.empty()) std::memcpy(words.data(), bytes.data(), words.size() * sizeof(std::uint32_t));
    return words;
}

template <typename Table>
py::bytes corrections_of(const Table& table) {
    const std::vector<std::uint32_t>& words = table.corrections();
    return bytes_of({reinterpret_cast<const std::uint8_t*>(words.data()), words.size() * sizeof(std::uint32_t)});
}

std::shared_ptr<TorchExp> make_torch_exp(float low, float high, UniformRule rule, const py::bytes& corrections) {
    return std::make_shared<TorchExp>(low, high, rule, words_of(corrections));
}

// Throws pybind11::value_error unless the table has numbers first, ..., first + count - 1.
template <typename Table>
void check_range(const Table& table, std::size_t first, std::size_t count) {
    if (first <= table.count() && count <= table.count() - first) return;
    throw py::value_error("first + count must be at most " + std::to_string(table.count()));
}

template <typename Table>
FloatArray inputs_of(const Table& table, std::size_t first, std::size_t count) {
    check_range(table, first, count);
    FloatArray inputs(static_cast<py::ssize_t>(count));
    table.fill_inputs(first, count, inputs.mutable_data());
    return inputs;
}

template <typename Table>
bool add_values(Table& table, std::size_t first, const FloatArray& values) {
    const Span<const float> span(values.data(), static_cast<std::size_t>(values.size()));
    check_range(table, first, span.size());
    const py::gil_scoped_release released;
    return table.add(first, span);
}

// Adds what tables of results of torch.exp have in common.
template <typename Table>
void bind_table(Class<Table, std::shared_ptr<Table>>& bound) {
    bound.def("__len__", &Table::count)
        .def("inputs", &inputs_of<Table>, py::arg("first"), py::arg("count"))
        .def("add", &add_values<Table>, py::arg("first"), py::arg("values"))
        .def_property_readonly("corrections", &corrections_of<Table>);
}

float exp_value(const TorchExp& exp, std::uint32_t bits24) {
    check_range(exp, bits24, 1);
    return exp(bits24);
}

void load_state(TorchDraws& draws, const ByteArray& state) {
    const ByteSpan bytes(state.data(), static_cast<std::size_t>(state.size()));
    if (!draws.stream().load_torch_state(bytes)) {
        throw py::value_error("state must be that of a seeded CPU torch.Generator, 5056 bytes");
    }
}

void store_state(const TorchDraws& draws, ByteArray& state) {
    if (static_cast<std::size_t>(state.size()) != Mt19937Stream::kTorchStateBytes) {
        throw py::value_error("state must have 5056 bytes");
    }
    draws.stream().store_torch_state(state.mutable_data());
}

py::array_t<double> weighted_draws(std::uint64_t seed, std::uint64_t epoch, std::uint64_t first, std::uint64_t stride,
                                   std::size_t count) {
    py::array_t<double> draws(static_cast<py::ssize_t>(count));
    double* const out = draws.mutable_data();
    for (std::size_t i = 0; i < count; ++i) {
        out[i] = CounterRng(seed, epoch, first + i * stride, 0, DrawDomain::kWeights).next_double();
    }
    return draws;
}

py::object text_of(const TorchDraws& draws) {
    std::array<std::uint8_t, Mt19937Stream::kPackedBytes> bytes;
    draws.stream().pack(bytes.data());
    auto text = py::reinterpret_steal<py::object>(
        PyUnicode_New(static_cast<py::ssize_t>(base64_size(bytes.size())), 127));  // 127: ASCII
    if (!text) throw py::error_already_set();
    encode_base64({bytes.data(), bytes.size()}, static_cast<char*>(PyUnicode_DATA(text.ptr())));
    return text;
}

void unpack(TorchDraws& draws, const py::bytes& packed) {
    if (!draws.stream().unpack(span_of(packed))) {
        throw py::value_error("packed must be the bytes of a text() in base64: 624 words and two counters, 2504 bytes");
    }
}

std::vector<int> draw_permutation(DrawSource& draws, std::size_t n) {
    if (n > 255) throw py::value_error("n must be at most 255");
    std::uint8_t drawn[255];
    draws.permutation(drawn, n);
    return {drawn, drawn + n};
}

std::uint32_t draw_below(DrawSource& draws, std::uint32_t n) {
    if (n == 0 || n >= 1U << 28) throw py::value_error("n must be in 1..2**28 - 1");
    return draws.below(n);
}

std::shared_ptr<TorchGaussian> make_torch_gaussian(float from, float to, const py::bytes& corrections) {
    if (!(from > 0.0F) || !std::isfinite(to)) throw py::value_error("the numbers must be positive and finite");
    return std::make_shared<TorchGaussian>(from, to, words_of(corrections));
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

FloatArray sums_of(const GaussianBlur& blur, float sigma, const ByteArray& planes) {
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

void bind_draws(py::module_& m) {
    Class<UniformRule>(m, "UniformRule")
        .def(py::init([](bool is_fused, bool excludes_to) { return UniformRule{is_fused, excludes_to}; }),
             py::kw_only(), py::arg("is_fused"), py::arg("excludes_to"))
        .def_readonly("is_fused", &UniformRule::is_fused)
        .def_readonly("excludes_to", &UniformRule::excludes_to);

    Class<TorchExp, std::shared_ptr<TorchExp>> torch_exp(m, "TorchExp");
    torch_exp
        .def(py::init(&make_torch_exp), py::arg("low"), py::arg("high"), py::arg("rule"),
             py::arg("corrections") = py::bytes())
        .def("value", &exp_value, py::arg("draw"));
    bind_table(torch_exp);

    Class<DrawSource>(m, "DrawSource")
        .def("below", &draw_below, py::arg("n"))
        .def("uniform", py::overload_cast<>(&DrawSource::uniform))
        .def("uniform", py::overload_cast<float, float>(&DrawSource::uniform), py::arg("low"), py::arg("high"))
        .def("permutation", &draw_permutation, py::arg("n"));

    Class<CounterDraws, DrawSource>(m, "CounterDraws")
        .def(py::init<std::uint64_t, std::uint64_t, std::uint64_t, std::uint32_t>(), py::arg("seed"), py::arg("epoch"),
             py::arg("sample_index"), py::arg("draw_number") = 0);

    m.def("weighted_draws", &weighted_draws, py::arg("seed"), py::arg("epoch"), py::arg("first"), py::arg("stride"),
          py::arg("count"),
          "Returns draws first, first + stride, ... of a sampler with weights, float64 [count] in [0, 1).");

    Class<TorchDraws, DrawSource>(m, "TorchDraws")
        .def(py::init([](std::uint64_t seed, UniformRule rule) { return TorchDraws(Mt19937Stream(seed), rule); }),
             py::arg("seed"), py::arg("rule"))
        .def("load", &load_state, py::arg("state").noconvert())
        .def("store", &store_state, py::arg("state").noconvert())
        .def("text", &text_of, "Returns the complete state, 2504 bytes, as base64.")
        .def("unpack", &unpack, py::arg("packed"));
    Class<TorchGaussian, std::shared_ptr<TorchGaussian>> torch_gaussian(m, "TorchGaussian");
    torch_gaussian
        .def(py::init(&make_torch_gaussian), py::arg("low"), py::arg("high"), py::arg("corrections") = py::bytes())
        .def("value", &TorchGaussian::operator(), py::arg("number"));
    bind_table(torch_gaussian);

    m.attr("MAX_BLUR_SIZE") = kMaxBlurSize;
    m.def("gaussian_weights", &weights_of, py::arg("blur"), py::arg("positions"), py::arg("sigmas"),
          "Returns the weights of one axis for each sigma, float32 [sigma, position].");
    m.def("gaussian_sums", &sums_of, py::arg("blur"), py::arg("sigma"), py::arg("planes"),
          "Returns the sums of the blur before rounding: float32 [3, height, at least width].");
    m.def(
        "has_fast_blur",
        [] {
            const KernelTable* table = select_kernel_table();
            return table != nullptr && table->has_fma;
        },
        "Returns whether blurs are faster than torch's: the active kernels have a fused multiply-add.");
}

}  // namespace fastload
