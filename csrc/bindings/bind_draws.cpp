#include "bindings/bind_draws.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "image/random/draw_source.h"
#include "image/random/torch_exp.h"

namespace fastload {
namespace {

namespace py = pybind11;

using FloatArray = py::array_t<float, py::array::c_style>;
using StateArray = py::array_t<std::uint8_t, py::array::c_style>;

FloatArray exp_inputs(const TorchExp& exp, std::uint32_t first, std::size_t count) {
    if (first > TorchExp::kNumDraws || count > TorchExp::kNumDraws - first) {
        throw py::value_error("first + count must be at most 2**24");
    }
    FloatArray inputs(static_cast<py::ssize_t>(count));
    exp.fill_inputs(first, count, inputs.mutable_data());
    return inputs;
}

float exp_value(const TorchExp& exp, std::uint32_t bits24) {
    if (bits24 >= TorchExp::kNumDraws) throw py::value_error("the draw must be below 2**24");
    return exp(bits24);
}

bool add_exp_values(TorchExp& exp, std::uint32_t first, const FloatArray& values) {
    const Span<const float> span(values.data(), static_cast<std::size_t>(values.size()));
    const py::gil_scoped_release released;
    return exp.add(first, span);
}

void load_state(TorchDraws& draws, const StateArray& state) {
    const ByteSpan bytes(state.data(), static_cast<std::size_t>(state.size()));
    if (!draws.stream().load_torch_state(bytes)) {
        throw py::value_error("state must be that of a seeded CPU torch.Generator, 5056 bytes");
    }
}

void store_state(const TorchDraws& draws, StateArray& state) {
    if (static_cast<std::size_t>(state.size()) != Mt19937Stream::kTorchStateBytes) {
        throw py::value_error("state must have 5056 bytes");
    }
    draws.stream().store_torch_state(state.mutable_data());
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

float draw_exp(DrawSource& draws, float from, float to, std::shared_ptr<TorchExp> torch_exp) {
    return draws.uniform_exp({from, to, std::move(torch_exp)});
}

}  // namespace

void bind_draws(py::module_& m) {
    py::class_<UniformRule>(m, "UniformRule")
        .def(py::init([](bool is_fused, bool excludes_to) { return UniformRule{is_fused, excludes_to}; }),
             py::kw_only(), py::arg("is_fused"), py::arg("excludes_to"))
        .def_readonly("is_fused", &UniformRule::is_fused)
        .def_readonly("excludes_to", &UniformRule::excludes_to);

    py::class_<TorchExp, std::shared_ptr<TorchExp>>(m, "TorchExp")
        .def(py::init<float, float, UniformRule>(), py::arg("low"), py::arg("high"), py::arg("rule"))
        .def("inputs", &exp_inputs, py::arg("first"), py::arg("count"))
        .def("add", &add_exp_values, py::arg("first"), py::arg("values"))
        .def("value", &exp_value, py::arg("draw"))
        .def_property_readonly("num_corrections", &TorchExp::num_corrections);

    py::class_<DrawSource>(m, "DrawSource")
        .def("begin_step", &DrawSource::begin_step, py::arg("position"))
        .def("below", &draw_below, py::arg("n"))
        .def("uniform", py::overload_cast<>(&DrawSource::uniform))
        .def("uniform", py::overload_cast<float, float>(&DrawSource::uniform), py::arg("low"), py::arg("high"))
        .def("uniform_exp", &draw_exp, py::arg("low"), py::arg("high"), py::arg("torch_exp").none(true))
        .def("permutation", &draw_permutation, py::arg("n"));

    py::class_<CounterDraws, DrawSource>(m, "CounterDraws")
        .def(py::init<std::uint64_t, std::uint64_t, std::uint64_t>(), py::arg("seed"), py::arg("epoch"),
             py::arg("sample_index"));

    py::class_<TorchDraws, DrawSource>(m, "TorchDraws")
        .def(py::init([](std::uint64_t seed, UniformRule rule) { return TorchDraws(Mt19937Stream(seed), rule); }),
             py::arg("seed"), py::arg("rule"))
        .def("load", &load_state, py::arg("state").noconvert())
        .def("store", &store_state, py::arg("state").noconvert());
}

}  // namespace fastload
