// Typed values out of a Python dict, with errors that name what they speak of.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

namespace fastload {

// ValueError: "`name` must be `allowed`, got `value`".
[[noreturn]] void reject(const std::string& name, const std::string& allowed, const pybind11::handle& value);

// One name of a closed list, as its value.
template <typename Value, std::size_t kCount>
Value choose(const std::string& name, const std::pair<const char*, Value> (&choices)[kCount],
             const pybind11::handle& value) {
    std::string allowed = "one of ";
    for (const auto& [text, choice] : choices) {
        if (pybind11::isinstance<pybind11::str>(value) && value.cast<std::string>() == text) return choice;
        allowed += std::string(&text == &choices[0].first ? "\"" : ", \"") + text + "\"";
    }
    reject(name, allowed, value);
}

// Reads the keys of one dict, each at most once; finish() refuses keys that nobody read. ValueError where a key lacks
// or its value is not what was asked for.
class DictReader {
  public:
    // `name` is how errors call the dict.
    DictReader(std::string name, const pybind11::handle& dict);

    bool has(const char* key) const { return dict_.contains(key); }
    std::string name_of(const char* key) const { return name_ + "." + key; }
    pybind11::object take(const char* key);

    std::int64_t integer(const char* key, std::int64_t least, std::int64_t most);
    double number(const char* key);
    bool boolean(const char* key);
    // As many numbers as there is room for.
    template <typename Numbers>
    void numbers(const char* key, const char* allowed, Numbers* numbers) {
        const pybind11::object value = take(key);
        const pybind11::sequence sequence = as_sequence(key, allowed, value, std::size(*numbers));
        for (std::size_t i = 0; i < std::size(*numbers); ++i)
            (*numbers)[i] = as_double(key, allowed, sequence[i], value);
    }
    pybind11::sequence sequence(const char* key);
    std::string bytes(const char* key);

    template <typename Value, std::size_t kCount>
    Value word(const char* key, const std::pair<const char*, Value> (&choices)[kCount]) {
        return choose(name_of(key), choices, take(key));
    }

    void finish() const;

  private:
    // ValueError where `value` is not a sequence of `count`.
    pybind11::sequence as_sequence(const char* key, const char* allowed, const pybind11::object& value,
                                   std::size_t count) const;
    // `shown`: what an error shows.
    double as_double(const char* key, const char* allowed, const pybind11::object& number,
                     const pybind11::object& shown) const;

    std::string name_;
    pybind11::dict dict_;
    std::set<std::string> taken_;
};

}  // namespace fastload
