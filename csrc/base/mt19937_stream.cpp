#include "base/mt19937_stream.h"

#include <cstring>

namespace fastload {
namespace {

constexpr std::size_t kShift = 397;

// The state of at::CPUGeneratorImpl as torch returns it: seed (8 bytes), left (4), seeded (4), next (8), 624 words of
// 8 bytes each, then the spare values of normal distributions.
constexpr std::size_t kLeftOffset = 8;
constexpr std::size_t kSeededOffset = 12;
constexpr std::size_t kNextOffset = 16;
constexpr std::size_t kWordsOffset = 24;

template <typename Value>
Value value_at(const std::uint8_t* bytes) noexcept {
    Value value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
}

void store_little_endian(std::uint32_t value, std::uint8_t* bytes) noexcept {
    for (int i = 0; i < 4; ++i) bytes[i] = static_cast<std::uint8_t>(value >> (8 * i));
}

std::uint32_t load_little_endian(const std::uint8_t* bytes) noexcept {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value |= static_cast<std::uint32_t>(bytes[i]) << (8 * i);
    return value;
}

std::uint32_t twist(std::uint32_t high_bit_of, std::uint32_t low_bits_of) noexcept {
    const std::uint32_t mixed = (high_bit_of & 0x80000000U) | (low_bits_of & 0x7fffffffU);
    return (mixed >> 1) ^ ((low_bits_of & 1U) != 0 ? 0x9908b0dfU : 0U);
}

}  // namespace

Mt19937Stream::Mt19937Stream(std::uint64_t seed) noexcept {
    words_[0] = static_cast<std::uint32_t>(seed);
    for (std::size_t i = 1; i < kWords; ++i) {
        words_[i] = 1812433253U * (words_[i - 1] ^ (words_[i - 1] >> 30)) + static_cast<std::uint32_t>(i);
    }
}

void Mt19937Stream::mix() noexcept {
    for (std::size_t i = 0; i < kWords; ++i) {
        words_[i] = words_[(i + kShift) % kWords] ^ twist(words_[i], words_[(i + 1) % kWords]);
    }
    left_ = kWords;
    next_ = 0;
}

std::uint32_t Mt19937Stream::next_uint32() noexcept {
    if (--left_ == 0) mix();
    std::uint32_t word = words_[next_++];
    word ^= word >> 11;
    word ^= (word << 7) & 0x9d2c5680U;
    word ^= (word << 15) & 0xefc60000U;
    return word ^ (word >> 18);
}

bool Mt19937Stream::are_counters(std::uint64_t left, std::uint64_t next) noexcept {
    if (left < 1 || left > kWords || next > kWords) return false;
    return left == 1 || left + next == kWords + 1;
}

bool Mt19937Stream::load_torch_state(ByteSpan state) noexcept {
    if (state.size() != kTorchStateBytes) return false;
    const auto left = value_at<std::int32_t>(state.data() + kLeftOffset);
    const auto is_seeded = value_at<std::int32_t>(state.data() + kSeededOffset);
    const auto next = value_at<std::uint64_t>(state.data() + kNextOffset);
    if (is_seeded != 1 || left < 1 || !are_counters(static_cast<std::uint64_t>(left), next)) return false;
    left_ = static_cast<std::uint32_t>(left);
    next_ = static_cast<std::uint32_t>(next);
    for (std::size_t i = 0; i < kWords; ++i) {
        words_[i] = static_cast<std::uint32_t>(value_at<std::uint64_t>(state.data() + kWordsOffset + 8 * i));
    }
    return true;
}

void Mt19937Stream::store_torch_state(std::uint8_t* state) const noexcept {
    const auto left = static_cast<std::int32_t>(left_);
    const std::uint64_t next = next_;
    std::memcpy(state + kLeftOffset, &left, sizeof left);
    std::memcpy(state + kNextOffset, &next, sizeof next);
    for (std::size_t i = 0; i < kWords; ++i) {
        const std::uint64_t word = words_[i];
        std::memcpy(state + kWordsOffset + 8 * i, &word, sizeof word);
    }
}

void Mt19937Stream::pack(std::uint8_t* bytes) const noexcept {
    for (std::size_t i = 0; i < kWords; ++i) store_little_endian(words_[i], bytes + 4 * i);
    store_little_endian(left_, bytes + 4 * kWords);
    store_little_endian(next_, bytes + 4 * kWords + 4);
}

bool Mt19937Stream::unpack(ByteSpan bytes) noexcept {
    if (bytes.size() != kPackedBytes) return false;
    const std::uint32_t left = load_little_endian(bytes.data() + 4 * kWords);
    const std::uint32_t next = load_little_endian(bytes.data() + 4 * kWords + 4);
    if (!are_counters(left, next)) return false;
    for (std::size_t i = 0; i < kWords; ++i) words_[i] = load_little_endian(bytes.data() + 4 * i);
    left_ = left;
    next_ = next;
    return true;
}

}  // namespace fastload
