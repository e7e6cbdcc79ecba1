#include "base/content_hash.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace fastload {
namespace {

__extension__ using Uint128 = unsigned __int128;

constexpr Uint128 kPrime = (Uint128{1} << 127) - 1;
constexpr std::size_t kWordBytes = 8;
constexpr std::size_t kBlockBytes = kWordBytes * HashKey::kBlockWords;

BlockSumsFunction block_sums = block_sums_scalar;

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

template <int kSums>
void add_word(std::uint64_t word, const std::uint64_t* key, std::uint64_t* sums) noexcept {
    const auto lower = [](std::uint64_t bits) { return static_cast<std::uint32_t>(bits); };
    for (int i = 0; i < kSums; ++i) {
        const std::uint32_t a = lower(word) + lower(key[i]);
        const std::uint32_t b = lower(word >> 32) + lower(key[i] >> 32);
        sums[i] += std::uint64_t{a} * b;
    }
}

template <int kSums>
BlockSums sums_of(const std::uint64_t* key, ByteSpan block) noexcept {
    BlockSums result;
    std::size_t done = 0;
    for (; block.size() - done >= kWordBytes; done += kWordBytes) {
        add_word<kSums>(load_little_endian(block.data() + done), key + done / kWordBytes, result.sums);
    }
    if (done < block.size()) {
        std::uint8_t last[kWordBytes] = {};
        std::memcpy(last, block.data() + done, block.size() - done);
        add_word<kSums>(load_little_endian(last), key + done / kWordBytes, result.sums);
    }
    return result;
}

// Reduces `value` modulo the prime, to at most 2^127.
constexpr Uint128 folded(Uint128 value) noexcept { return (value & kPrime) + (value >> 127); }

// Adds any two numbers modulo the prime, to at most 2^127 + 2: a carry counts 2^128, which is 2 modulo the prime.
constexpr Uint128 sum(Uint128 a, Uint128 b) noexcept {
    const Uint128 wrapped = a + b;
    return folded(wrapped) + (wrapped < a ? 2 : 0);
}

// value * point + coefficient modulo the prime, for value <= 2^127 + 2 and point < 2^127. No sum of products below
// exceeds 128 bits.
constexpr Uint128 horner(Uint128 value, Uint128 point, Uint128 coefficient) noexcept {
    const Uint128 middle = product(high(value), low(point)) + product(low(value), high(point));
    const Uint128 upper = 2 * (product(high(value), high(point)) + high(middle));
    return sum(sum(product(low(value), low(point)), coefficient), sum(upper, Uint128{low(middle)} << 64));
}

// The key of a chain: the point of the polynomial, the three numbers of the linear map, the multipliers of the
// bijection.
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

// Without the second chain the upper half is 0.
template <Chains kChains>
ContentHash hash_of(const HashKey& key, ByteSpan bytes) noexcept {
    const std::uint64_t* chain_keys = key.words.data() + HashKey::kBlockKeyWords;
    Chain first(chain_keys);
    Chain second(chain_keys + HashKey::kChainKeyWords);
    for (std::size_t offset = 0; offset < bytes.size(); offset += kBlockBytes) {
        const ByteSpan block = bytes.subspan(offset, std::min(kBlockBytes, bytes.size() - offset));
        const BlockSums found = block_sums(key.words.data(), block, kChains);
        first.add(joined(found.sums));
        if constexpr (kChains == Chains::kBoth) second.add(joined(found.sums + 2));
    }
    first.add(bytes.size());
    if constexpr (kChains == Chains::kFirst) return {first.result(), 0};
    second.add(bytes.size());
    return {first.result(), second.result()};
}

}  // namespace

Status HashKey::random(HashKey* key) noexcept {
    HashKey filled;
    auto* bytes = reinterpret_cast<std::uint8_t*>(filled.words.data());
    // A call may return fewer bytes than asked for: a signal may interrupt any request for more than 256 bytes.
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

BlockSums block_sums_scalar(const std::uint64_t* key, ByteSpan block, Chains chains) noexcept {
    return chains == Chains::kBoth ? sums_of<4>(key, block) : sums_of<2>(key, block);
}

void use_block_sums(BlockSumsFunction function) noexcept { block_sums = function; }

ContentHash content_hash(const HashKey& key, ByteSpan bytes) noexcept { return hash_of<Chains::kBoth>(key, bytes); }

std::uint64_t content_sum(const HashKey& key, ByteSpan bytes) noexcept {
    return hash_of<Chains::kFirst>(key, bytes).low;
}

}  // namespace fastload
