// Decoding tables made from a DHT segment.
#pragma once

#include <cstdint>

#include "codec/jpeg/bit_reader.h"
#include "codec/jpeg/markers.h"

namespace fastload::jpeg {

// The lookups are indexed by the next 9 bits. Larger tables were slower when measured: every index is about equally
// likely, so the whole table must stay in the first-level cache.
constexpr int kLookupBits = 9;
constexpr int kLookupSize = 1 << kLookupBits;
// Longer codes are looked up by 12 bits if they are among the first 256 values after the shorter ones. Files with their
// own tables were seen to have up to 90.
constexpr int kLongLookupBits = 12;
constexpr int kLongLookupSize = 256;

// The largest magnitudes of 8-bit samples (T.81 tables F.1 and F.2). Tables with larger ones are left to the reference
// decoder; the bit budgets rely on it.
constexpr int kMaxDcSize = 11;
constexpr int kMaxAcSize = 10;

struct Symbol {
    std::uint8_t length = 0;  // of the code, 1..16; 0 if no code fits
    std::uint8_t value = 0;
};

// A table in the canonical form of T.81 annex C.
class CanonicalCode {
  public:
    // Returns false if the lengths do not make a prefix code, or if a code consists of ones only.
    bool build(const HuffmanSpec& spec) noexcept;

    // The symbol that starts `bits` (top-aligned).
    Symbol find(std::uint64_t bits) const noexcept {
        const std::uint64_t index = (bits >> (64 - kLongLookupBits)) - first_long_;
        if (index < kLongLookupSize && long_lookup_[index].length != 0) return long_lookup_[index];
        return search(bits);
    }

    const std::uint8_t* symbols() const noexcept { return symbols_; }
    int symbol_count() const noexcept { return symbol_count_; }

  private:
    void fill_long_lookup(const HuffmanSpec& spec) noexcept;
    Symbol search(std::uint64_t bits) const noexcept;

    std::uint64_t first_long_ = 0;  // the first 12 bits of the first code of more than 9
    Symbol long_lookup_[kLongLookupSize];
    std::uint16_t limits_[16] = {};        // for lengths from 1 on: one more than the last code, left-aligned
    std::int32_t symbol_offset_[17] = {};  // index of a symbol minus its code
    std::uint8_t symbols_[256] = {};
    int symbol_count_ = 0;
};

struct DcTable {
    Symbol lookup[kLookupSize];  // length 0: longer than 9 bits, or undefined
    CanonicalCode code;

    // Returns false if the decoder does not take the table.
    bool build(const HuffmanSpec& spec) noexcept;
};

// Note [AC steps]
// One lookup decodes as many symbols as its 9 bits hold, for a block whose next zigzag position is k:
// - `pattern`: the values at k..k + 3, of symbols whose code and magnitude lie inside the 9 bits;
// - a tail: one more symbol, of which only the code does. Its magnitude follows `tail_offset` bits after the start and
//   has 64 - `tail_shift` bits; its value belongs at k + `tail_position`. Without a tail that position is
//   kNoTailPosition, after the block, and the value is meaningless;
// - `advance`: the increase of k, plus kEndOfBlock if an EOB was taken in, or kUnknownCode if 9 bits do not even
//   determine the first code;
// - `total_bits`: the length of all this.
// Example: code 01 for (run 0, size 2), code 1010 for EOB. Bits 01 11 1010 0 give pattern {3, 0, 0, 0}, no tail,
// advance 1 + 128, total 8. Bits 01 11 01 10 1 give pattern {3, 2, 0, 0}, advance 2, total 8: "1" alone is no code.
struct AcStep {
    std::uint8_t total_bits = 0;
    std::uint8_t tail_offset = 0;
    std::uint8_t tail_shift = 0;
    std::uint8_t tail_position = 0;
    std::uint8_t advance = 0;
    std::uint8_t unused[3] = {};  // 8 bytes, so that the index is a scaled address
};

constexpr int kPatternSlots = 4;
constexpr int kNoTailPosition = 72;
constexpr int kEndOfBlock = 128;
constexpr int kUnknownCode = 255;
// A step takes at most 9 bits of codes and a tail of 10.
constexpr int kMaxStepBits = kLookupBits + kMaxAcSize;
// Stores reach k + kNoTailPosition with k <= 63.
constexpr int kBlockBufferSize = 63 + kNoTailPosition + 1;

struct AcTable {
    alignas(64) AcStep steps[kLookupSize];
    alignas(64) std::int16_t patterns[kLookupSize][kPatternSlots];
    CanonicalCode code;

    // Returns false if the decoder does not take the table.
    bool build(const HuffmanSpec& spec) noexcept;
};

// A symbol of an AC scan of a progressive file (T.81 G.1.2.2). If size is not 0, a coefficient after `run` zeros;
// otherwise ZRL if run is 15, else an end of band for a run of blocks whose length has `run` bits below its highest.
struct BandSymbol {
    std::uint8_t total_bits = 0;  // code with magnitude or run length bits; 0 if no code fits
    std::uint8_t code_bits = 0;
    std::uint8_t run = 0;
    std::uint8_t size = 0;
};

constexpr int kZeroRunLength = 15;
// A code and its magnitude, or a code and 14 bits of run length, the most there are.
constexpr int kMaxBandSymbolBits = 16 + 14;

// A refinement scan reads one bit of magnitude for any size of a symbol, so there only sizes 0 and 1 are meaningful.
struct BandTable {
    BandSymbol lookup[kLookupSize];  // total_bits 0: longer than 9 bits, or undefined
    CanonicalCode code;
    int largest_size = 0;

    // Returns false if the decoder does not take the table.
    bool build(const HuffmanSpec& spec) noexcept;

    // The symbol that starts `bits` (top-aligned), of any length.
    BandSymbol find(std::uint64_t bits) const noexcept;
};

}  // namespace fastload::jpeg
