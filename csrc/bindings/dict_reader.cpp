#include "bindings/dict_reader.h"

namespace fastload {

namespace py = pybind11;

void reject(const std::string& name, const std::string& allowed, const py::handle& value) {
    throw py::value_error(name + " must be " + allowed + ", got " + std::string(py::repr(value)));
}

DictReader::DictReader(std::string name, const py::handle& dict) : name_(std::move(name)) {
    if (!py::isinstance<py::dict>(dict)) reject(name_, "a dict", dict);
    dict_ = py::reinterpret_borrow<py::dict>(dict);
}

py::object DictReader::take(const char* key) {
    if (!dict_.contains(key)) throw py::value_error(name_ + " needs the key \"" + key + "\"");
    taken_.insert(key);
    return dict_[key];
}

std::int64_t DictReader::integer(const char* key, std::int64_t least, std::int64_t most) {
    const py::object value = take(key);
    const bool is_int = PyLong_Check(value.ptr()) != 0 && !PyBool_Check(value.ptr());
    int overflow = 0;
    const std::int64_t number = is_int ? PyLong_AsLongLongAndOverflow(value.ptr(), &overflow) : 0;
    if (!is_int || overflow != 0 || number < least || number > most) {
        reject(name_of(key), "an int in " + std::to_string(least) + ".." + std::to_string(most), value);
    }
    return number;
}

double DictReader::number(const char* key) {
    const py::object value = take(key);
    return as_double(key, "a number", value, value);
}

bool DictReader::boolean(const char* key) {
    const py::object value = take(key);
    if (!PyBool_Check(value.ptr())) reject(name_of(key), "a bool", value);
    return value.ptr() == Py_True;
}

py::sequence DictReader::sequence(const char* key) {
    const py::object value = take(key);
    const bool is_list = py::isinstance<py::list>(value) || py::isinstance<py::tuple>(value);
    if (!is_list) reject(name_of(key), "a list or a tuple", value);
    return py::reinterpret_borrow<py::sequence>(value);
}

std::string DictReader::bytes(const char* key) {
    const py::object value = take(key);
    if (!py::isinstance<py::bytes>(value)) reject(name_of(key), "bytes", value);
    return value.cast<std::string>();
}

void DictReader::finish() const {
    for (const auto& item : dict_) {
        const std::string key = py::str(item.first);
        if (taken_.count(key) == 0) throw py::value_error(name_ + " has an unknown key \"" + key + "\"");
    }
}

py::sequence DictReader::as_sequence(const char* key, const char* allowed, const py::object& value,
                                     std::size_t count) const {
    if (!py::isinstance<py::sequence>(value) || py::len(value) != count) reject(name_of(key), allowed, value);
    return py::reinterpret_borrow<py::sequence>(value);
}

double DictReader::as_double(const char* key, const char* allowed, const py::object& number,
                             const py::object& shown) const {
    const double result = PyFloat_AsDouble(number.ptr());
    if (PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        reject(name_of(key), allowed, shown);
    }
    return result;
}

}  // namespace fastload
