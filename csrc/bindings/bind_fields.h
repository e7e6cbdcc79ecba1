// Classes that are their arguments: one row of the binding names each of them once.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace fastload {

// The argument `kMember` of a class.
template <auto kMember>
struct Field {
    const char* name;
};

template <auto kMember>
Field<kMember> field(const char* name) {
    return {name};
}

// Lets objects of `base` and of classes derived from it be compared and shown by their arguments.
void compare_by_fields(const pybind11::object& base);

// An attribute, read only. Apart from the templates: a property for each attribute takes compilers long.
void add_attribute(const pybind11::object& bound, const char* name, pybind11::object (*get)(pybind11::handle self));

// Adds keyword-only arguments to `bound`, which become attributes. ValueError where check() finds that one makes no
// sense.
template <typename Bound, auto... kMembers>
void bind_fields(Bound bound, Field<kMembers>... fields) {
    namespace py = pybind11;
    using Type = typename Bound::type;
    const auto construct = [](std::decay_t<decltype(std::declval<Type>().*kMembers)>... values) {
        auto made = std::make_shared<Type>();
        ((*made.*kMembers = std::move(values)), ...);
        const std::string problem = made->check();
        if (!problem.empty()) throw py::value_error(problem);
        return made;
    };
    if constexpr (sizeof...(kMembers) == 0) {
        bound.def(py::init(construct));
    } else {
        bound.def(py::init(construct), py::kw_only(), py::arg(fields.name)...);
    }
    (add_attribute(bound, fields.name,
                   [](py::handle self) -> py::object { return py::cast(self.cast<const Type&>().*kMembers); }),
     ...);
    bound.attr("_fields") = py::make_tuple(fields.name...);
}

}  // namespace fastload
