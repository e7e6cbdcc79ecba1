#include "python/method_exchange.h"

#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

namespace fastload {

// A method that has been exchanged once. It never changes again, because a thread may still be in its trampoline when
// the exchange is undone. Its references are never released.
struct ExchangedMethod {
    PyMethodDef* definition = nullptr;
    PyCFunction original = nullptr;
    PyCFunction trampoline = nullptr;
    PyObject* process_object = nullptr;
    Ref ThreadGenerators::* own = nullptr;
    PyObject* replacement = nullptr;
    bool is_drawing = false;              // the replacement gets the thread's torch.Generator
    bool has_object = false;              // and the object, which is an argument of the method
    PyTypeObject* tensor_type = nullptr;  // null: the replacement is always called
    PyObject* count_modes = nullptr;
};

struct ExchangedGetter {
    PyGetSetDef* definition = nullptr;
    getter original = nullptr;
    getter trampoline = nullptr;
    PyObject* process_object = nullptr;
    Ref ThreadGenerators::* own = nullptr;
};

namespace {

constexpr std::size_t kMaxMethods = 144;
constexpr std::size_t kMaxGetters = 2;

// Plain data without destructors: calls may come until the process ends.
std::array<ExchangedMethod, kMaxMethods> methods;
std::array<ExchangedGetter, kMaxGetters> getters;

using PlainFunction = PyObject* (*)(PyObject* self, PyObject* packed);
using KeywordFunction = PyObject* (*)(PyObject* self, PyObject* packed, PyObject* keywords);
using FastFunction = PyObject* (*)(PyObject* self, PyObject* const* items, Py_ssize_t count);
using FastKeywordFunction = PyObject* (*)(PyObject* self, PyObject* const* items, Py_ssize_t count, PyObject* names);

// The function that call_original() was asked for in this thread, until it is called.
__thread const PyMethodDef* bypassed __attribute__((tls_model("initial-exec"))) = nullptr;

// Returns ml_flags without the flags that do not matter to the calling convention.
int convention_of(const PyMethodDef& definition) noexcept {
    return definition.ml_flags & ~(METH_COEXIST | METH_STATIC);
}

// Returns the function that the calling thread calls instead; null: the original.
PyObject* replacement_of(const ExchangedMethod& method) noexcept {
    return generators_of_thread() == nullptr || method.is_drawing ? nullptr : method.replacement;
}

// Whether the calling thread calls the replacement of a function that draws.
bool draws_here(const ExchangedMethod& method) noexcept {
    if (!method.is_drawing || generators_of_thread() == nullptr) return false;
    const bool is_bypassed = bypassed == method.definition;
    if (is_bypassed) bypassed = nullptr;
    return !is_bypassed;
}

// Whether an argument says nothing of a device, or is a tensor on the CPU. False for values of unknown types.
bool is_of_cpu(PyObject* value, PyTypeObject* tensor_type) {
    if (value == Py_None || PyLong_Check(value) || PyFloat_Check(value) || PyTuple_CheckExact(value)) return true;
    if (Py_TYPE(value) != tensor_type) return false;
    const Ref answer = Ref::steal(PyObject_GetAttrString(value, "is_cpu"));
    if (!answer) PyErr_Clear();
    return answer.get() == Py_True;
}

// Returns the keywords with the generator added, if the call is sure to draw on the CPU. Null: it is not, or there is a
// Python error.
Ref add_generator(const ExchangedMethod& method, PyObject* generator, PyObject* self, PyObject* packed,
                  PyObject* keywords) {
    PyTypeObject* type = method.tensor_type;
    if (type == nullptr) return {};
    const Ref num_modes = Ref::steal(PyObject_CallNoArgs(method.count_modes));
    if (!num_modes || PyObject_IsTrue(num_modes.get()) != 0) return {};
    if ((method.has_object && !is_of_cpu(self, type))) return {};
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(packed); ++index)
        if (!is_of_cpu(PyTuple_GET_ITEM(packed, index), type)) return {};
    Ref with_generator = Ref::steal(PyDict_New());
    if (!with_generator) return {};
    PyObject *name = nullptr, *value = nullptr;
    for (Py_ssize_t place = 0; keywords != nullptr && PyDict_Next(keywords, &place, &name, &value);) {
        const bool says_where = PyUnicode_CompareWithASCIIString(name, "generator") == 0 ||
                                PyUnicode_CompareWithASCIIString(name, "device") == 0;
        if (says_where || !is_of_cpu(value, type) || PyDict_SetItem(with_generator.get(), name, value) != 0) return {};
    }
    if (PyDict_SetItemString(with_generator.get(), "generator", generator) != 0) return {};
    return with_generator;
}

// Calls the replacement with the thread's torch.Generator, the method's object if there is one, and the arguments.
PyObject* call_drawing(const ExchangedMethod& method, PyObject* self, PyObject* packed, PyObject* keywords) {
    const Ref generator = generators_of_thread()->torch;
    if (const Ref with_generator = add_generator(method, generator.get(), self, packed, keywords))
        return cast_function<KeywordFunction>(method.original)(self, packed, with_generator.get());
    if (PyErr_Occurred() != nullptr) return nullptr;
    const Py_ssize_t count = PyTuple_GET_SIZE(packed);
    const Py_ssize_t begin = method.has_object ? 2 : 1;
    const Ref arguments = Ref::steal(PyTuple_New(begin + count));
    if (!arguments) return nullptr;
    PyTuple_SET_ITEM(arguments.get(), 0, generator.share());
    if (method.has_object) PyTuple_SET_ITEM(arguments.get(), 1, Ref::borrow(self).share());
    for (Py_ssize_t index = 0; index < count; ++index)
        PyTuple_SET_ITEM(arguments.get(), begin + index, Ref::borrow(PyTuple_GET_ITEM(packed, index)).share());
    return PyObject_Call(method.replacement, arguments.get(), keywords);
}

template <typename Function, typename... Arguments>
PyObject* call_on_own(const ExchangedMethod& method, PyObject* self, Arguments... arguments) {
    const auto function = cast_function<Function>(method.original);
    const ThreadGenerators* own = generators_of_thread();
    if (own == nullptr || method.own == nullptr || self != method.process_object) return function(self, arguments...);
    const Ref object = own->*method.own;
    PyObject* result = function(object.get(), arguments...);
    if (result != object.get()) return result;
    // The method returns its own object. The caller must see the process's.
    Py_DECREF(result);
    return Ref::borrow(self).share();
}

template <std::size_t kIndex>
PyObject* call_plain(PyObject* self, PyObject* packed) {
    const ExchangedMethod& method = methods[kIndex];
    PyObject* replacement = replacement_of(method);
    if (replacement == nullptr) return call_on_own<PlainFunction>(method, self, packed);
    if (convention_of(*method.definition) == METH_VARARGS) return PyObject_CallObject(replacement, packed);
    return packed == nullptr ? PyObject_CallNoArgs(replacement) : PyObject_CallOneArg(replacement, packed);
}

template <std::size_t kIndex>
PyObject* call_with_keywords(PyObject* self, PyObject* packed, PyObject* keywords) {
    const ExchangedMethod& method = methods[kIndex];
    if (draws_here(method)) return call_drawing(method, self, packed, keywords);
    PyObject* replacement = replacement_of(method);
    if (replacement != nullptr) return PyObject_Call(replacement, packed, keywords);
    return call_on_own<KeywordFunction>(method, self, packed, keywords);
}

template <std::size_t kIndex>
PyObject* call_fast(PyObject* self, PyObject* const* items, Py_ssize_t count) {
    const ExchangedMethod& method = methods[kIndex];
    PyObject* replacement = replacement_of(method);
    if (replacement != nullptr)
        return PyObject_Vectorcall(replacement, items, static_cast<std::size_t>(count), nullptr);
    return call_on_own<FastFunction>(method, self, items, count);
}

template <std::size_t kIndex>
PyObject* call_fast_with_keywords(PyObject* self, PyObject* const* items, Py_ssize_t count, PyObject* names) {
    const ExchangedMethod& method = methods[kIndex];
    PyObject* replacement = replacement_of(method);
    if (replacement != nullptr) return PyObject_Vectorcall(replacement, items, static_cast<std::size_t>(count), names);
    return call_on_own<FastKeywordFunction>(method, self, items, count, names);
}

template <std::size_t kIndex>
PyObject* get_attribute(PyObject* self, void* closure) {
    const ExchangedGetter& attribute = getters[kIndex];
    const ThreadGenerators* own = generators_of_thread();
    const bool is_own = own != nullptr && self == attribute.process_object;
    return attribute.original(is_own ? (own->*attribute.own).get() : self, closure);
}

struct Trampolines {
    PlainFunction plain;
    KeywordFunction with_keywords;
    FastFunction fast;
    FastKeywordFunction fast_with_keywords;
};

template <std::size_t... kIndices>
constexpr std::array<Trampolines, sizeof...(kIndices)> list_trampolines(std::index_sequence<kIndices...> /*all*/) {
    return {Trampolines{&call_plain<kIndices>, &call_with_keywords<kIndices>, &call_fast<kIndices>,
                        &call_fast_with_keywords<kIndices>}...};
}

template <std::size_t... kIndices>
constexpr std::array<getter, sizeof...(kIndices)> list_getters(std::index_sequence<kIndices...> /*all*/) {
    return {&get_attribute<kIndices>...};
}

constexpr auto kTrampolines = list_trampolines(std::make_index_sequence<kMaxMethods>());
constexpr auto kGetters = list_getters(std::make_index_sequence<kMaxGetters>());

// Null for other conventions.
PyCFunction choose_trampoline(const Trampolines& trampolines, int convention) {
    switch (convention) {
        case METH_NOARGS:
        case METH_O:
        case METH_VARARGS:
            return trampolines.plain;
        case METH_VARARGS | METH_KEYWORDS:
            return cast_function<PyCFunction>(trampolines.with_keywords);
        case METH_FASTCALL:
            return cast_function<PyCFunction>(trampolines.fast);
        case METH_FASTCALL | METH_KEYWORDS:
            return cast_function<PyCFunction>(trampolines.fast_with_keywords);
        default:
            return nullptr;
    }
}

// Null if `function` is not written in C. The structure of a Cython function begins with the one of a CPython function.
PyMethodDef* definition_of(PyObject* function) noexcept {
    const std::string_view type_name = Py_TYPE(function)->tp_name;
    constexpr std::string_view kCython = "cython_function_or_method";
    const bool is_cython =
        type_name.size() >= kCython.size() && type_name.substr(type_name.size() - kCython.size()) == kCython;
    if (PyCFunction_Check(function) || is_cython) return reinterpret_cast<PyCFunctionObject*>(function)->m_ml;
    if (Py_TYPE(function) == &PyMethodDescr_Type) return reinterpret_cast<PyMethodDescrObject*>(function)->d_method;
    return nullptr;
}

// Lets the kernel write the value that is already there. It refuses if the memory is read-only, so nothing crashes.
template <typename Function>
bool is_writable(Function* place) noexcept {
    int ends[2];
    if (::pipe(ends) != 0) return false;
    const Function content = *place;
    const bool is_written = ::write(ends[1], &content, sizeof content) == sizeof content &&
                            ::read(ends[0], place, sizeof content) == sizeof content;
    ::close(ends[0]);
    ::close(ends[1]);
    return is_written;
}

// Returns the index of `definition` among `known`, or of the first free entry; the size of `known` if there is none.
template <typename Known, typename Definition>
std::size_t find_place(const Known& known, const Definition* definition) noexcept {
    std::size_t index = 0;
    while (index < known.size() && known[index].definition != nullptr && known[index].definition != definition) ++index;
    return index;
}

// The original hash of CPython's own type of functions; set by keep_hashes().
hashfunc hash_of_cpython = nullptr;

// The hash of a function depends on `ml_meth`. An exchanged function keeps its old hash, so that tables in which it is
// a key still find it, among them torch's table of functions that make tensors.
Py_hash_t hash_as_before(PyObject* function) {
    const auto* known = reinterpret_cast<PyCFunctionObject*>(function);
    const std::size_t index = find_place(methods, known->m_ml);
    if (index == kMaxMethods || methods[index].definition == nullptr) return hash_of_cpython(function);
    // It reads its object and its definition.
    PyCFunctionObject copy = *known;
    PyMethodDef definition = *known->m_ml;
    definition.ml_meth = methods[index].original;
    copy.m_ml = &definition;
    return hash_of_cpython(reinterpret_cast<PyObject*>(&copy));
}

// Call it before the first exchange. It is never undone, since it changes no hash.
void keep_hashes() noexcept {
    if (hash_of_cpython == nullptr) hash_of_cpython = std::exchange(PyCFunction_Type.tp_hash, &hash_as_before);
}

bool refuse(const char* name, const char* reason) {
    PyErr_Format(PyExc_NotImplementedError, "%s cannot be exchanged: %s", name, reason);
    return false;
}

bool has_name(const char* found, const char* name) noexcept {
    return found != nullptr && std::strcmp(found, name) == 0;
}

}  // namespace

// An entry keeps the process's object or replacement that it was first made for.
bool MethodExchange::add(PyObject* function, const char* name, const ExchangedMethod& wanted) {
    PyMethodDef* definition = definition_of(function);
    if (definition == nullptr || !has_name(definition->ml_name, name))
        return refuse(name, "it is no method of this name that is written in C");
    const std::size_t index = find_place(methods, definition);
    if (index == kMaxMethods) return refuse(name, "there are too many");
    ExchangedMethod& method = methods[index];
    if (method.definition == nullptr) {
        const PyCFunction trampoline = choose_trampoline(kTrampolines[index], convention_of(*definition));
        if (trampoline == nullptr) return refuse(name, "its calling convention is not known");
        if (!is_writable(&definition->ml_meth)) return refuse(name, "its table is read-only");
        keep_hashes();
        method = wanted;
        Py_XINCREF(method.process_object);
        Py_XINCREF(method.replacement);
        Py_XINCREF(method.tensor_type);
        Py_XINCREF(method.count_modes);
        method.definition = definition;
        method.original = definition->ml_meth;
        method.trampoline = trampoline;
    }
    const bool is_wanted = method.process_object == wanted.process_object && method.own == wanted.own &&
                           method.replacement == wanted.replacement && method.is_drawing == wanted.is_drawing &&
                           method.tensor_type == wanted.tensor_type;
    if (!is_wanted) return refuse(name, "it was exchanged for something else");
    methods_.push_back(&method);
    return true;
}

bool MethodExchange::add_method(PyObject* function, const char* name, const StandIn& stand_in) {
    ExchangedMethod wanted;
    wanted.process_object = stand_in.process_object.get();
    wanted.own = stand_in.own;
    return add(function, name, wanted);
}

bool MethodExchange::add_function(PyObject* function, const char* name, PyObject* replacement) {
    ExchangedMethod wanted;
    wanted.replacement = replacement;
    return add(function, name, wanted);
}

bool MethodExchange::add_drawing(PyObject* function, const char* name, PyObject* replacement, PyTypeObject* tensor_type,
                                 PyObject* count_modes) {
    const PyMethodDef* definition = definition_of(function);
    if (definition != nullptr && convention_of(*definition) != (METH_VARARGS | METH_KEYWORDS))
        return refuse(name, "it takes its arguments in another way than torch's functions do");
    ExchangedMethod wanted;
    wanted.replacement = replacement;
    wanted.is_drawing = true;
    wanted.tensor_type = tensor_type;
    wanted.count_modes = count_modes;
    wanted.has_object = Py_TYPE(function) == &PyMethodDescr_Type;
    return add(function, name, wanted);
}

PyObject* call_original(PyObject* function, PyObject* packed, PyObject* keywords) {
    const PyMethodDef* before = std::exchange(bypassed, definition_of(function));
    PyObject* result = PyObject_Call(function, packed, keywords);
    bypassed = before;
    return result;
}

bool MethodExchange::add_attribute(PyObject* descriptor, const char* name, const StandIn& stand_in) {
    const bool is_known = Py_TYPE(descriptor) == &PyGetSetDescr_Type;
    PyGetSetDef* definition = is_known ? reinterpret_cast<PyGetSetDescrObject*>(descriptor)->d_getset : nullptr;
    if (definition == nullptr || definition->get == nullptr || !has_name(definition->name, name))
        return refuse(name, "it is no attribute of this name that is written in C");
    const std::size_t index = find_place(getters, definition);
    if (index == kMaxGetters) return refuse(name, "there are too many");
    ExchangedGetter& attribute = getters[index];
    if (attribute.definition == nullptr) {
        if (!is_writable(&definition->get)) return refuse(name, "its table is read-only");
        attribute = {definition, definition->get, kGetters[index], stand_in.process_object.share(), stand_in.own};
    }
    if (attribute.process_object != stand_in.process_object.get() || attribute.own != stand_in.own)
        return refuse(name, "it was exchanged for something else");
    getters_.push_back(&attribute);
    return true;
}

void MethodExchange::make() const noexcept {
    for (const ExchangedMethod* method : methods_) method->definition->ml_meth = method->trampoline;
    for (const ExchangedGetter* attribute : getters_) attribute->definition->get = attribute->trampoline;
}

void MethodExchange::undo() const noexcept {
    for (const ExchangedMethod* method : methods_) method->definition->ml_meth = method->original;
    for (const ExchangedGetter* attribute : getters_) attribute->definition->get = attribute->original;
}

}  // namespace fastload
