// A 128-bit hash of bytes under a secret key, to tell contents apart.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/span.h"
#include "base/status.h"

namespace fastload {

// Note [content hash]
// Two chains make 64 bits each. Of every block of 2 KiB a chain has the sum of (a + k)(b + l) over the pairs of words
// (a, b), with a key word for each word of the block, modulo 2^128 (NH: Black, Halevi, Krawczyk, Krovetz, Rogaway,
// "UMAC", 1999); the second chain's words are the first one's, two further on. The sums and the length are the
// coefficients of a polynomial modulo 2^127 - 1 at a secret point; its value goes through a secret linear map, of which
// the upper half is kept (Dietzfelbinger, "Universal hashing and k-wise independent random variables via integer
// arithmetic without primes", 1996), and through a bijection, without which close contents would have close hashes.
// So it holds for any two contents that were chosen without knowledge of the key: a half of their hashes is equal with
// a probability below 2^-61, and both halves with one below 2^-122. It is not for who knows the key or sees hashes.

// Every constant of the hash. Whoever knows them can make contents with equal hashes, so they are secret and random.
struct HashKey {
    static constexpr std::size_t kBlockWords = 256;
    static constexpr std::size_t kBlockKeyWords = kBlockWords + 2;
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

// The same on every processor, wherever the bytes lie. Thread-safe.
ContentHash content_hash(const HashKey& key, ByteSpan bytes) noexcept;
// The lower half of that alone, by the first chain, in half the time.
std::uint64_t content_sum(const HashKey& key, ByteSpan bytes) noexcept;

}  // namespace fastload
