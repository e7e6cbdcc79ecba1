// Names for the values of an enum, the same in arguments and in reports.
#pragma once

namespace fastload {

// Specialised for each enum that has names, with the static members `kNames`, pairs of a name and a value, and, if
// arguments are of this type, `kArgument`, the name that errors use for one.
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
