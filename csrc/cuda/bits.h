// Pieces of memory that are read and written in one access.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/host_device.h"

namespace fastload {

template <typename Element>
constexpr int kSize = static_cast<int>(sizeof(Element));

// Several pieces of memory that are moved at once. Piece 0 has the lowest address, as on all machines with a GPU. The
// contents are read and written as bits.
template <int kSizeBytes>
struct alignas(kSizeBytes) [[gnu::may_alias]] Bits {
    using Word =
        std::conditional_t<kSizeBytes == 1, std::uint8_t,
                           std::conditional_t<kSizeBytes == 2, std::uint16_t,
                                              std::conditional_t<kSizeBytes == 4, std::uint32_t, std::uint64_t>>>;
    static constexpr int kWordBytes = kSize<Word>;

    Word words[kSizeBytes / kWordBytes] = {};

    FASTLOAD_HOST_DEVICE std::uint8_t byte(int index) const {
        return static_cast<std::uint8_t>(words[index / kWordBytes] >> (8 * (index % kWordBytes)));
    }
    template <typename Element>
    FASTLOAD_HOST_DEVICE void set(int index, Element element) {
        constexpr int kPerWord = kWordBytes / kSize<Element>;
        const int shift = 8 * kSize<Element> * (index % kPerWord);
        words[index / kPerWord] = static_cast<Word>(words[index / kPerWord] | static_cast<Word>(element) << shift);
    }
};

template <int kSizeBytes>
FASTLOAD_HOST_DEVICE Bits<kSizeBytes> load_bits(const std::uint8_t* from) {
    return *reinterpret_cast<const Bits<kSizeBytes>*>(from);
}

template <int kSizeBytes, typename Element>
FASTLOAD_HOST_DEVICE void store_bits(Element* to, Bits<kSizeBytes> bits) {
    *reinterpret_cast<Bits<kSizeBytes>*>(to) = bits;
}

}  // namespace fastload
