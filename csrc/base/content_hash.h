// A 128-bit hash of bytes under a secret key, which tells contents apart.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/span.h"
#include "base/status.h"

namespace fastload {

// Note [content hash]
// Contents are split into blocks of 4 KiB, and blocks into words of 64 bits; the last word is filled up with zeros.
// Each block gives four sums modulo 2^64. A sum adds, for every i, the product of (lower half of word i + lower half of
// a key word) and (upper half of word i + upper half of that key word), with both additions modulo 2^32. The key word
// is the i-th for the first sum, and one, two or three further on for the others (NH with shifted keys: Black, Halevi,
// Krawczyk, Krovetz, Rogaway, "UMAC", 1999). Two chains make 64 bits each, from two sums each. The sums, taken as one
// number, and after the last block the length, are the coefficients of a polynomial modulo 2^127 - 1 at a secret point.
// The polynomial's value goes through a secret linear map, of which the upper half is kept (Dietzfelbinger, "Universal
// hashing and k-wise independent random variables via integer arithmetic without primes", 1996), and then through a
// bijection; without it, similar contents would have similar hashes. This holds for any two contents chosen without
// knowledge of the key: one half of their hashes is equal with a probability below 2^-61, and both halves with a
// probability below 2^-122. It gives no protection once the key or hashes are known.

// All constants of the hash. They are secret and random, because with them one can make contents with equal hashes.
struct HashKey {
    static constexpr std::size_t kBlockWords = 512;
    static constexpr std::size_t kBlockKeyWords = kBlockWords + 3;
    static constexpr std::size_t kChainKeyWords = 10;
    static constexpr std::size_t kWords = kBlockKeyWords + 2 * kChainKeyWords;

    std::array<std::uint64_t, kWords> words;

    // Fills `key` from the system's random generator. Returns kReadFailed and leaves the key as it is if there is none.
    static Status random(HashKey* key) noexcept;
};

struct ContentHash {
    std::uint64_t low = 0;
    std::uint64_t high = 0;

    friend constexpr bool operator==(const ContentHash& a, const ContentHash& b) noexcept {
        return a.low == b.low && a.high == b.high;
    }
};

// Stands for the contents of a file in look-ups.
struct ContentKey {
    ContentHash hash;
    std::uint64_t length = 0;  // bytes

    friend constexpr bool operator==(const ContentKey& a, const ContentKey& b) noexcept {
        return a.hash == b.hash && a.length == b.length;
    }
};

// Metadata of a file that the keeper of a record stores with it. Covered by the record's check; the contents are the
// keeper's own business.
using RecordStamp = std::array<std::uint8_t, 64>;

struct BlockSums {
    std::uint64_t sums[4] = {};
};
enum class Chains : std::uint8_t { kFirst, kBoth };
// The sums of a block of at most kBlockWords words, with the key words from `key` on. Those of the second chain are 0
// if only the first one is asked for.
using BlockSumsFunction = BlockSums (*)(const std::uint64_t* key, ByteSpan block, Chains chains) noexcept;

BlockSums block_sums_scalar(const std::uint64_t* key, ByteSpan block, Chains chains) noexcept;

// Selects the function that makes the sums; all of them give the same result. Call before any thread hashes.
void use_block_sums(BlockSumsFunction function) noexcept;

// The same on every processor and for every alignment of the bytes. Thread-safe.
ContentHash content_hash(const HashKey& key, ByteSpan bytes) noexcept;
// The lower half alone, by the first chain, in half the time.
std::uint64_t content_sum(const HashKey& key, ByteSpan bytes) noexcept;

}  // namespace fastload
