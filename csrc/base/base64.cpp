#include "base/base64.h"

#include <array>
#include <cstdint>
#include <cstring>

namespace fastload {
namespace {

constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Two characters for every 12 bits, so that three bytes take two look-ups.
using Pairs = std::array<std::array<char, 2>, 4096>;

constexpr Pairs make_pairs() {
    Pairs pairs{};
    for (std::size_t bits = 0; bits < pairs.size(); ++bits) pairs[bits] = {kDigits[bits >> 6], kDigits[bits & 63]};
    return pairs;
}

constexpr Pairs kPairs = make_pairs();

void encode_three(std::uint32_t bits24, char* text) noexcept {
    std::memcpy(text, kPairs[bits24 >> 12].data(), 2);
    std::memcpy(text + 2, kPairs[bits24 & 0xfff].data(), 2);
}

}  // namespace

void encode_base64(ByteSpan bytes, char* text) noexcept {
    const auto at = [&](std::size_t i) { return static_cast<std::uint32_t>(bytes.data()[i]); };
    std::size_t i = 0;
    for (; i + 3 <= bytes.size(); i += 3, text += 4) encode_three(at(i) << 16 | at(i + 1) << 8 | at(i + 2), text);
    const std::size_t num_left = bytes.size() - i;
    if (num_left == 0) return;
    encode_three(at(i) << 16 | (num_left == 2 ? at(i + 1) << 8 : 0), text);
    text[3] = '=';
    if (num_left == 1) text[2] = '=';
}

}  // namespace fastload
