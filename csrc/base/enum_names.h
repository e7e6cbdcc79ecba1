// The words for the values of an enum, the same in arguments and in reports.
#pragma once

namespace fastload {

// Specialised beside each enum that has words, with two static members: `kArgument`, how errors call an argument of
// this type, and `kNames`, pairs of a word and a value.
template <typename Enum>
struct EnumNames;

template <typename Enum>
constexpr const char* name_of(Enum value) noexcept {
    for (const auto& [name, named] : EnumNames<Enum>::kNames) {
        if (named == value) return name;
    }
    return "";
}

}  // namespace fastload
