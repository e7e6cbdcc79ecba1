// A 128-bit hash of bytes under a secret key, to tell contents apart.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/span.h"
#include "base/status.h"

namespace fastload {

// Note [content hash]
// Contents are blocks of 4 KiB, these are words of 64 bits, the last of them filled up with zeros. Of every block there
// are four sums modulo 2^64: of the i-th word's lower half and a key word's times its upper half and the key word's
// (each added modulo 2^32), where the key word is the i-th, or one, two or three further on (NH with shifted keys:
// Black, Halevi, Krawczyk, Krovetz, Rogaway, "UMAC", 1999). Two chains make 64 bits each, of two sums each. The sums
// as one number and, behind the last, the length are the coefficients of a polynomial modulo 2^127 - 1 at a secret
// point; its value goes through a secret linear map, of which the upper half is kept (Dietzfelbinger, "Universal
// hashing and k-wise independent random variables via integer arithmetic without primes", 1996), and through a
// bijection, without which close contents would have close hashes. So it holds for any two contents that were chosen
// without knowledge of the key: a half of their hashes is equal with a probability below 2^-61, and both halves with
// one below 2^-122. It is not for who knows the key or sees hashes.

// Every constant of the hash. Whoever knows them can make contents with equal hashes, so they are secret and random.
struct HashKey {
    static constexpr std::size_t kBlockWords = 512;
    static constexpr std::size_t kBlockKeyWords = kBlockWords + 3;
    static constexpr std::size_t kChainKeyWords = 10;
    static constexpr std::size_t kWords = kBlockKeyWords + 2 * kChainKeyWords;

    std::array<std::uint64_t, kWords> words;

    // Fills `key` from the system's generator. kReadFailed, with the key as it was, where there is none.
    static Status random(HashKey* key) noexcept;
};

struct ContentHash {
    std::uint64_t low = 0;
    std::uint64_t high = 0;

    friend constexpr bool operator==(const ContentHash& a, const ContentHash& b) noexcept {
        return a.low == b.low && a.high == b.high;
    }
};

// What stands for contents where they are looked up.
struct ContentKey {
    ContentHash hash;
    std::uint64_t length = 0;  // bytes

    friend constexpr bool operator==(const ContentKey& a, const ContentKey& b) noexcept {
        return a.hash == b.hash && a.length == b.length;
    }
};

struct BlockSums {
    std::uint64_t sums[4] = {};
};
enum class Chains : std::uint8_t { kFirst, kBoth };
// The sums of a block of at most kBlockWords words with the key words from `key` on; of the first chain the others are
// 0.
using BlockSumsFunction = BlockSums (*)(const std::uint64_t* key, ByteSpan block, Chains chains) noexcept;

BlockSums block_sums_scalar(const std::uint64_t* key, ByteSpan block, Chains chains) noexcept;

// From here on this function makes the sums; each gives the same. For before there are threads that hash.
void use_block_sums(BlockSumsFunction function) noexcept;

// The same on every processor, wherever the bytes lie. Thread-safe.
ContentHash content_hash(const HashKey& key, ByteSpan bytes) noexcept;
// The lower half of that alone, by the first chain, in half the time.
std::uint64_t content_sum(const HashKey& key, ByteSpan bytes) noexcept;

}  // namespace fastload
