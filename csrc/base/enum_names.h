// Names for the values of an enum, the same in arguments and in reports.
#pragma once

namespace fastload {

// Specialised beside each enum that has names, with two static members: `kArgument`, the name that errors use for an
// argument of this type, and `kNames`, pairs of a name and a value.
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
