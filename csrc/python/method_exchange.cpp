#include "python/method_exchange.h"

#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

namespace fastload {

// A method that has been exchanged once. What it says does not change any more, because a thread may still be in its
// trampoline when the exchange is undone. Its references are never given back.
struct ExchangedMethod {
    PyMethodDef* definition = nullptr;
    PyCFunction original = nullptr;
    PyCFunction trampoline = nullptr;
    PyObject* process_object = nullptr;
    Ref ThreadGenerators::* own = nullptr;
    PyObject* replacement = nullptr;
};

struct ExchangedGetter {
    PyGetSetDef* definition = nullptr;
    getter original = nullptr;
    getter trampoline = nullptr;
    PyObject* process_object = nullptr;
    Ref ThreadGenerators::* own = nullptr;
};

namespace {

constexpr std::size_t kMaxMethods = 96;
constexpr std::size_t kMaxGetters = 2;

// Plain data: calls may come until the process ends.
std::array<ExchangedMethod, kMaxMethods> methods;
std::array<ExchangedGetter, kMaxGetters> getters;

using PlainFunction = PyObject* (*)(PyObject* self, PyObject* packed);
using KeywordFunction = PyObject* (*)(PyObject* self, PyObject* packed, PyObject* keywords);
using FastFunction = PyObject* (*)(PyObject* self, PyObject* const* items, Py_ssize_t count);
using FastKeywordFunction = PyObject* (*)(PyObject* self, PyObject* const* items, Py_ssize_t count, PyObject* names);

template <typename To, typename From>
To cast_function(From function) noexcept {
    return reinterpret_cast<To>(reinterpret_cast<void (*)()>(function));
}

// ml_flags without what says nothing about the convention.
int convention_of(const PyMethodDef& definition) noexcept { return definition.ml_flags & ~METH_COEXIST; }

// What the calling thread calls in place of a function; null: the function.
PyObject* replacement_of(const ExchangedMethod& method) noexcept {
    return generators_of_thread() == nullptr ? nullptr : method.replacement;
}

template <typename Function, typename... Arguments>
PyObject* call_on_own(const ExchangedMethod& method, PyObject* self, Arguments... arguments) {
    const auto function = cast_function<Function>(method.original);
    const ThreadGenerators* own = generators_of_thread();
    if (own == nullptr || self != method.process_object) return function(self, arguments...);
    const Ref object = own->*method.own;
    PyObject* result = function(object.get(), arguments...);
    if (result != object.get()) return result;
    // A method that returns its object: the caller knows the process's.
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

// Null where the convention is none of these.
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

// Null where `function` is not written in C. A function of Cython begins as one of CPython does.
PyMethodDef* definition_of(PyObject* function) noexcept {
    const std::string_view type_name = Py_TYPE(function)->tp_name;
    constexpr std::string_view kCython = "cython_function_or_method";
    const bool is_cython =
        type_name.size() >= kCython.size() && type_name.substr(type_name.size() - kCython.size()) == kCython;
    if (PyCFunction_Check(function) || is_cython) return reinterpret_cast<PyCFunctionObject*>(function)->m_ml;
    if (Py_TYPE(function) == &PyMethodDescr_Type) return reinterpret_cast<PyMethodDescrObject*>(function)->d_method;
    return nullptr;
}

// Lets the kernel write there what is there already: it says no where the memory is read-only, and nothing crashes.
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

bool refuse(const char* name, const char* reason) {
    PyErr_Format(PyExc_NotImplementedError, "%s cannot be exchanged: %s", name, reason);
    return false;
}

bool has_name(const char* found, const char* name) noexcept {
    return found != nullptr && std::strcmp(found, name) == 0;
}

// Where `definition` is, or may be, among `known`: behind the last where there is no room.
template <typename Known, typename Definition>
std::size_t find_place(const Known& known, const Definition* definition) noexcept {
    std::size_t index = 0;
    while (index < known.size() && known[index].definition != nullptr && known[index].definition != definition) ++index;
    return index;
}

// The entry of `function`; null with a Python error. It is for the process's object, or the replacement, that was named
// first.
ExchangedMethod* find_method(PyObject* function, const char* name, const ExchangedMethod& wanted) {
    const auto fail = [name](const char* reason) -> ExchangedMethod* {
        refuse(name, reason);
        return nullptr;
    };
    PyMethodDef* definition = definition_of(function);
    if (definition == nullptr || !has_name(definition->ml_name, name))
        return fail("it is no method of this name that is written in C");
    const std::size_t index = find_place(methods, definition);
    if (index == kMaxMethods) return fail("there are too many");
    ExchangedMethod& method = methods[index];
    if (method.definition == nullptr) {
        const PyCFunction trampoline = choose_trampoline(kTrampolines[index], convention_of(*definition));
        if (trampoline == nullptr) return fail("its calling convention is not known");
        if (!is_writable(&definition->ml_meth)) return fail("its table is read-only");
        method = wanted;
        Py_XINCREF(method.process_object);
        Py_XINCREF(method.replacement);
        method.definition = definition;
        method.original = definition->ml_meth;
        method.trampoline = trampoline;
    }
    const bool is_wanted = method.process_object == wanted.process_object && method.own == wanted.own &&
                           method.replacement == wanted.replacement;
    return is_wanted ? &method : fail("it was exchanged for something else");
}

}  // namespace

bool MethodExchange::add_method(PyObject* function, const char* name, const StandIn& stand_in) {
    ExchangedMethod wanted;
    wanted.process_object = stand_in.process_object.get();
    wanted.own = stand_in.own;
    const ExchangedMethod* method = find_method(function, name, wanted);
    if (method != nullptr) methods_.push_back(method);
    return method != nullptr;
}

bool MethodExchange::add_function(PyObject* function, const char* name, PyObject* replacement) {
    ExchangedMethod wanted;
    wanted.replacement = replacement;
    const ExchangedMethod* method = find_method(function, name, wanted);
    if (method != nullptr) methods_.push_back(method);
    return method != nullptr;
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
