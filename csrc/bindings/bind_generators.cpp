// The generators of threads, and the exchanges that make Python's functions draw from them.
#include <memory>
#include <string>

#include "bindings/bindings.h"
#include "bindings/class.h"
#include "python/method_exchange.h"
#include "python/thread_generators.h"

namespace py = pybind11;

namespace fastload {
namespace {

Ref share(const py::object& object) { return Ref::borrow(object.ptr()); }

// None if there is none.
py::object object_or_none(const Ref& ref) { return ref ? py::reinterpret_borrow<py::object>(ref.get()) : py::none(); }

void check(bool is_done) {
    if (!is_done) throw py::error_already_set();
}

py::object set_thread_generators(const py::object& owner) {
    if (owner.is_none()) return object_or_none(exchange_thread_generators(nullptr, nullptr));
    return object_or_none(exchange_thread_generators(owner.cast<ThreadGenerators*>(), owner.ptr()));
}

StandIn make_stand_in(const py::object& process_object, const std::string& own) {
    if (own == "random") return {share(process_object), &ThreadGenerators::random};
    if (own == "numpy") return {share(process_object), &ThreadGenerators::numpy};
    return {share(process_object), &ThreadGenerators::torch};
}

template <bool (MethodExchange::*kAdd)(PyObject*, const char*, const StandIn&)>
void add_stand_in(MethodExchange& self, const py::object& exchanged, const std::string& name, const StandIn& stand_in) {
    check((self.*kAdd)(exchanged.ptr(), name.c_str(), stand_in));
}

py::object make_descriptor(const py::type& type) {
    const Ref descriptor = make_gauss_next(reinterpret_cast<PyTypeObject*>(type.ptr()));
    check(static_cast<bool>(descriptor));
    return object_or_none(descriptor);
}

}  // namespace

void bind_generators(py::module_& m) {
    Class<ThreadGenerators>(m, "ThreadGenerators")
        .def(py::init([](const py::object& random, const py::object& numpy, const py::object& torch) {
                 return std::make_unique<ThreadGenerators>(ThreadGenerators{share(random), share(numpy), share(torch)});
             }),
             py::arg("random"), py::arg("numpy"), py::arg("torch"))
        .def_property_readonly("random", [](const ThreadGenerators& self) { return object_or_none(self.random); })
        .def_property_readonly("numpy", [](const ThreadGenerators& self) { return object_or_none(self.numpy); })
        .def_property_readonly("torch", [](const ThreadGenerators& self) { return object_or_none(self.torch); });
    m.def("set_thread_generators", &set_thread_generators, py::arg("generators").none(true));
    m.def("thread_generators", [] { return object_or_none(Ref::borrow(thread_setting.owner)); });
    m.def("call_original", [](const py::object& function, const py::args& packed, const py::kwargs& keywords) {
        PyObject* names = keywords.empty() ? nullptr : keywords.ptr();
        PyObject* result = call_original(function.ptr(), packed.ptr(), names);
        if (result == nullptr) throw py::error_already_set();
        return py::reinterpret_steal<py::object>(result);
    });

    Class<StandIn>(m, "StandIn").def(py::init(&make_stand_in), py::arg("process_object"), py::arg("own"));
    Class<MethodExchange>(m, "MethodExchange")
        .def(py::init<>())
        .def("add_method", &add_stand_in<&MethodExchange::add_method>, py::arg("function"), py::arg("name"),
             py::arg("stand_in"))
        .def(
            "add_function",
            [](MethodExchange& self, const py::object& function, const std::string& name,
               const py::object& replacement) {
                check(self.add_function(function.ptr(), name.c_str(), replacement.ptr()));
            },
            py::arg("function"), py::arg("name"), py::arg("replacement"))
        .def(
            "add_drawing",
            [](MethodExchange& self, const py::object& function, const std::string& name, const py::object& replacement,
               const py::object& tensor_type, const py::object& count_modes) {
                auto* type =
                    tensor_type.is_none() ? nullptr : reinterpret_cast<PyTypeObject*>(py::type(tensor_type).ptr());
                check(self.add_drawing(function.ptr(), name.c_str(), replacement.ptr(), type, count_modes.ptr()));
            },
            py::arg("function"), py::arg("name"), py::arg("replacement"), py::arg("tensor_type").none(true),
            py::arg("count_modes"))
        .def("add_attribute", &add_stand_in<&MethodExchange::add_attribute>, py::arg("descriptor"), py::arg("name"),
             py::arg("stand_in"))
        .def("make", &MethodExchange::make)
        .def("undo", &MethodExchange::undo);
    m.def("make_gauss_next", &make_descriptor, py::arg("type"));
}

}  // namespace fastload
