#include "bindings/bind_fields.h"

#include <string>

namespace fastload {
namespace {

namespace py = pybind11;

bool are_equal(const py::object& self, const py::object& other) {
    if (!py::type::of(self).is(py::type::of(other))) return false;
    for (const py::handle name : self.attr("_fields")) {
        if (!py::getattr(self, name).equal(py::getattr(other, name))) return false;
    }
    return true;
}

// As it was called: "Resize(height=224, width=224, interpolation='bilinear')".
std::string describe(const py::object& self) {
    std::string arguments;
    for (const py::handle name : self.attr("_fields")) {
        if (!arguments.empty()) arguments += ", ";
        arguments += std::string(py::str(name)) + "=" + std::string(py::repr(py::getattr(self, name)));
    }
    return std::string(py::str(py::type::of(self).attr("__name__"))) + "(" + arguments + ")";
}

}  // namespace

void compare_by_fields(const py::object& base) {
    base.attr("__eq__") = py::cpp_function(&are_equal, py::name("__eq__"), py::is_method(base));
    base.attr("__hash__") = py::none();
    base.attr("__repr__") = py::cpp_function(&describe, py::name("__repr__"), py::is_method(base));
}

void add_attribute(const py::object& bound, const char* name, py::object (*get)(py::handle self)) {
    const py::object property = py::module_::import("builtins").attr("property");
    bound.attr(name) = property(py::cpp_function([get](py::handle self) { return get(self); }, py::is_method(bound)));
}

}  // namespace fastload
