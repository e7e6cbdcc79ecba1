// Conversions of step arguments from and to Python types.
#pragma once

#include "bindings/pybind.h"

#include <pybind11/stl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/enum_names.h"
#include "image/plan/step.h"
#include "image/random/draw_source.h"
#include "image/random/torchvision_family.h"
#include "image/resize/resize_plan.h"
#include "image/steps/pad.h"

namespace pybind11::detail {

// One of an enum's names. ValueError for any other object.
template <typename Enum>
class word_caster {
  public:
    PYBIND11_TYPE_CASTER(Enum, const_name("str"));

    bool load(handle source, bool) {
        std::string allowed;
        for (const auto& [name, named] : fastload::EnumNames<Enum>::kNames) {
            if (isinstance<str>(source) && source.cast<std::string>() == name) {
                value = named;
                return true;
            }
            allowed += std::string(allowed.empty() ? "\"" : ", \"") + name + "\"";
        }
        throw value_error(std::string(fastload::EnumNames<Enum>::kArgument) + " must be one of " + allowed + ", got " +
                          std::string(repr(source)));
    }

    static handle cast(Enum word, return_value_policy, handle) { return str(fastload::name_of(word)).release(); }
};

template <>
class type_caster<fastload::Interpolation> : public word_caster<fastload::Interpolation> {};
template <>
class type_caster<fastload::PaddingMode> : public word_caster<fastload::PaddingMode> {};
template <>
class type_caster<fastload::ResizeOrder> : public word_caster<fastload::ResizeOrder> {};
template <>
class type_caster<fastload::TorchvisionFamily> : public word_caster<fastload::TorchvisionFamily> {};

template <>
class type_caster<std::vector<std::byte>> {
  public:
    PYBIND11_TYPE_CASTER(std::vector<std::byte>, const_name("bytes"));

    bool load(handle source, bool) {
        if (!isinstance<bytes>(source)) return false;
        const auto text = source.cast<std::string>();
        const auto* first = reinterpret_cast<const std::byte*>(text.data());
        value.assign(first, first + text.size());
        return true;
    }

    static handle cast(const std::vector<std::byte>& elements, return_value_policy, handle) {
        return bytes(reinterpret_cast<const char*>(elements.data()), elements.size()).release();
    }
};

// (low, high)
template <>
class type_caster<fastload::LogRange> {
  public:
    PYBIND11_TYPE_CASTER(fastload::LogRange, const_name("tuple[float, float]"));

    bool load(handle source, bool convert) {
        make_caster<std::pair<float, float>> bounds;
        if (!bounds.load(source, convert)) return false;
        std::tie(value.from, value.to) = cast_op<std::pair<float, float>>(bounds);
        return true;
    }

    static handle cast(const fastload::LogRange& range, return_value_policy, handle) {
        return pybind11::make_tuple(range.from, range.to).release();
    }
};

// (position, step)
template <>
class type_caster<fastload::PlacedStep> {
  public:
    PYBIND11_TYPE_CASTER(fastload::PlacedStep, const_name("tuple[int, Step]"));

    bool load(handle source, bool convert) {
        make_caster<std::pair<std::uint32_t, std::shared_ptr<fastload::Step>>> placed;
        if (!placed.load(source, convert)) return false;
        auto [position, step] = cast_op<std::pair<std::uint32_t, std::shared_ptr<fastload::Step>>>(placed);
        value = {position, std::move(step)};
        return value.step != nullptr;
    }

    static handle cast(const fastload::PlacedStep& placed, return_value_policy, handle) {
        return pybind11::make_tuple(placed.position, std::const_pointer_cast<fastload::Step>(placed.step)).release();
    }
};

}  // namespace pybind11::detail
