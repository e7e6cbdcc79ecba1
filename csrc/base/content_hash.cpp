#include "base/content_hash.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace fastload {
namespace {

__extension__ using Uint128 = unsigned __int128;

constexpr Uint128 kPrime = (Uint128{1} << 127) - 1;
constexpr std::size_t kPairBytes = 16;
constexpr std::size_t kGroupBytes = 16 * kPairBytes;  // what compilers unroll: a fifth faster
constexpr std::size_t kBlockBytes = 8 * HashKey::kBlockWords;

constexpr std::uint64_t low(Uint128 value) noexcept { return static_cast<std::uint64_t>(value); }
constexpr std::uint64_t high(Uint128 value) noexcept { return static_cast<std::uint64_t>(value >> 64); }
constexpr Uint128 joined(const std::uint64_t* words) noexcept { return Uint128{words[1]} << 64 | words[0]; }
constexpr Uint128 product(std::uint64_t a, std::uint64_t b) noexcept { return Uint128{a} * b; }

std::uint64_t load_little_endian(const std::uint8_t* bytes) noexcept {
    std::uint64_t word;
    std::memcpy(&word, bytes, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

struct BlockSums {
    Uint128 first = 0;
    Uint128 second = 0;

    template <bool kHasSecond>
    void add(const std::uint8_t* pair, const std::uint64_t* key) noexcept {
        const std::uint64_t a = load_little_endian(pair);
        const std::uint64_t b = load_little_endian(pair + 8);
        first += product(a + key[0], b + key[1]);
        if constexpr (kHasSecond) second += product(a + key[2], b + key[3]);
    }
};

// `block` has at most kBlockBytes; zeros stand for what its last pair lacks.
template <bool kHasSecond>
BlockSums block_sums(const HashKey& key, ByteSpan block) noexcept {
    BlockSums sums;
    const auto key_at = [&key](std::size_t offset) { return key.words.data() + offset / 8; };
    std::size_t done = 0;
    for (; block.size() - done >= kGroupBytes; done += kGroupBytes) {
        for (std::size_t i = done; i < done + kGroupBytes; i += kPairBytes)
            sums.add<kHasSecond>(block.data() + i, key_at(i));
    }
    for (; block.size() - done >= kPairBytes; done += kPairBytes) {
        sums.add<kHasSecond>(block.data() + done, key_at(done));
    }
    if (done < block.size()) {
        std::uint8_t last[kPairBytes] = {};
        std::memcpy(last, block.data() + done, block.size() - done);
        sums.add<kHasSecond>(last, key_at(done));
    }
    return sums;
}

// At most 2^127, and the same as `value` modulo the prime.
constexpr Uint128 folded(Uint128 value) noexcept { return (value & kPrime) + (value >> 127); }

// Of any two numbers, at most 2^127 + 2: a carry counts 2^128, which is 2 modulo the prime.
constexpr Uint128 sum(Uint128 a, Uint128 b) noexcept {
    const Uint128 wrapped = a + b;
    return folded(wrapped) + (wrapped < a ? 2 : 0);
}

// value * point + coefficient modulo the prime, for value <= 2^127 + 2 and point < 2^127: no sum of products below
// has more than 128 bits.
constexpr Uint128 horner(Uint128 value, Uint128 point, Uint128 coefficient) noexcept {
    const Uint128 middle = product(high(value), low(point)) + product(low(value), high(point));
    const Uint128 upper = 2 * (product(high(value), high(point)) + high(middle));
    return sum(sum(product(low(value), low(point)), coefficient), sum(upper, Uint128{low(middle)} << 64));
}

// A chain's key: the polynomial's point, the three numbers of the linear map, the multipliers of the bijection.
class Chain {
  public:
    explicit Chain(const std::uint64_t* key) noexcept : key_(key), point_(joined(key) & kPrime) {}

    void add(Uint128 coefficient) noexcept { value_ = horner(value_, point_, coefficient); }

    std::uint64_t result() const noexcept {
        Uint128 value = folded(value_);
        if (value >= kPrime) value -= kPrime;
        std::uint64_t bits = high(joined(key_ + 2) + joined(key_ + 4) * low(value) + joined(key_ + 6) * high(value));
        for (const std::uint64_t multiplier : {key_[8], key_[9]}) bits = (bits ^ bits >> 32) * (multiplier | 1);
        return bits ^ bits >> 32;
    }

  private:
    const std::uint64_t* key_;
    Uint128 point_;
    Uint128 value_ = 0;
};

// Without the second chain the higher half is 0.
template <bool kHasSecond>
ContentHash hash_of(const HashKey& key, ByteSpan bytes) noexcept {
    const std::uint64_t* chain_keys = key.words.data() + HashKey::kBlockKeyWords;
    Chain first(chain_keys);
    Chain second(chain_keys + HashKey::kChainKeyWords);
    for (std::size_t offset = 0; offset < bytes.size(); offset += kBlockBytes) {
        const ByteSpan block = bytes.subspan(offset, std::min(kBlockBytes, bytes.size() - offset));
        const BlockSums sums = block_sums<kHasSecond>(key, block);
        first.add(sums.first);
        if constexpr (kHasSecond) second.add(sums.second);
    }
    first.add(bytes.size());
    if constexpr (!kHasSecond) return {first.result(), 0};
    second.add(bytes.size());
    return {first.result(), second.result()};
}

}  // namespace

Status HashKey::random(HashKey* key) noexcept {
    HashKey filled;
    auto* bytes = reinterpret_cast<std::uint8_t*>(filled.words.data());
    // A call may give less than asked for, as every one for more than 256 bytes that a signal interrupts.
    for (std::size_t done = 0; done < sizeof filled.words;) {
        const ssize_t given = ::getrandom(bytes + done, sizeof filled.words - done, 0);
        if (given >= 0) {
            done += static_cast<std::size_t>(given);
        } else if (errno != EINTR) {
            return {StatusCode::kReadFailed, errno, 0, "the system gives no random numbers"};
        }
    }
    *key = filled;
    return Status::ok();
}

ContentHash content_hash(const HashKey& key, ByteSpan bytes) noexcept { return hash_of<true>(key, bytes); }

std::uint64_t content_sum(const HashKey& key, ByteSpan bytes) noexcept { return hash_of<false>(key, bytes).low; }

}  // namespace fastload
