// Draw numbers of a batch's samples, as given by Python: Note [counter layout].
#pragma once

#include "bindings/pybind.h"

#include <pybind11/numpy.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/span.h"

namespace fastload {

using NumberArray = pybind11::array_t<std::uint32_t, pybind11::array::c_style>;

// A view of them, empty if there are none. Throws pybind11::value_error if there are not `count` of them.
inline Span<const std::uint32_t> numbers_of(const std::optional<NumberArray>& draw_numbers, std::size_t count) {
    if (!draw_numbers) return {};
    const auto given = static_cast<std::size_t>(draw_numbers->size());
    if (given == count) return {draw_numbers->data(), given};
    throw pybind11::value_error("there must be " + std::to_string(count) + " draw_numbers, one for each sample, got " +
                                std::to_string(given));
}

}  // namespace fastload
