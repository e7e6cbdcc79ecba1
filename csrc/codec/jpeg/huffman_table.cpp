#include "codec/jpeg/huffman_table.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace fastload::jpeg {
namespace {

// For each 9-bit window the symbol it starts with, or length 0 if its code is longer.
void fill_lookup(const HuffmanSpec& spec, Symbol (&lookup)[kLookupSize]) {
    int index = 0;
    int symbol = 0;
    for (int length = 1; length <= kLookupBits; ++length) {
        const int windows = 1 << (kLookupBits - length);
        for (int i = 0; i < spec.code_counts[length - 1]; ++i) {
            const Symbol entry = {static_cast<std::uint8_t>(length), spec.symbols[symbol++]};
            for (int window = 0; window < windows; ++window) lookup[index++] = entry;
        }
    }
    while (index < kLookupSize) lookup[index++] = Symbol{};
}

BandSymbol band_symbol(const Symbol& symbol) {
    if (symbol.length == 0) return {};
    const int run = symbol.value >> 4;
    const int size = symbol.value & 15;
    const int extra_bits = size != 0 ? size : run == kZeroRunLength ? 0 : run;
    return {static_cast<std::uint8_t>(symbol.length + extra_bits), symbol.length, static_cast<std::uint8_t>(run),
            static_cast<std::uint8_t>(size)};
}

// Walks over the 9 bits `window` as Note [AC steps] describes.
class StepBuilder {
  public:
    StepBuilder(const Symbol (&lookup)[kLookupSize], unsigned window, AcStep* step, std::int16_t* pattern)
        : lookup_(lookup), window_(window), step_(step), pattern_(pattern) {}

    void build() {
        step_->tail_position = kNoTailPosition;
        while (take_symbol()) {
        }
        step_->advance = static_cast<std::uint8_t>(used_ == 0 ? kUnknownCode : advance_);
        step_->total_bits = static_cast<std::uint8_t>(used_);
    }

  private:
    // Returns false when the step is complete.
    bool take_symbol() {
        const Symbol symbol = lookup_[(window_ << used_) & (kLookupSize - 1)];
        if (symbol.length == 0 || symbol.length > kLookupBits - used_) return false;
        const int run = symbol.value >> 4;
        const int size = symbol.value & 15;
        const int code_end = used_ + symbol.length;
        if (size == 0) {  // ZRL is 16 zeros, everything else EOB
            used_ = code_end;
            advance_ += run == 15 ? 16 : kEndOfBlock;
            return false;
        }
        const int position = advance_ + run;
        advance_ = position + 1;
        used_ = code_end + size;
        if (used_ > kLookupBits || position >= kPatternSlots) {
            step_->tail_offset = static_cast<std::uint8_t>(code_end);
            step_->tail_shift = static_cast<std::uint8_t>(64 - size);
            step_->tail_position = static_cast<std::uint8_t>(position);
            return false;
        }
        const std::uint64_t magnitude = static_cast<std::uint64_t>(window_) << (64 - kLookupBits + code_end);
        pattern_[position] = static_cast<std::int16_t>(extend(magnitude, size));
        return true;
    }

    const Symbol (&lookup_)[kLookupSize];
    unsigned window_;
    AcStep* step_;
    std::int16_t* pattern_;
    int used_ = 0;
    int advance_ = 0;
};

}  // namespace

bool CanonicalCode::build(const HuffmanSpec& spec) noexcept {
    std::uint32_t code = 0;
    std::int32_t symbol = 0;
    for (int length = 1; length <= 16; ++length) {
        code <<= 1;
        const std::uint32_t count = spec.code_counts[length - 1];
        symbol_offset_[length] = symbol - static_cast<std::int32_t>(code);
        code += count;
        symbol += static_cast<std::int32_t>(count);
        // The last possible code of each length, all ones, is reserved (T.81 C.2).
        if (count != 0 && code >= (1U << length)) return false;
        limits_[length - 1] = static_cast<std::uint16_t>(code << (16 - length));
    }
    if (symbol > 256) return false;
    symbol_count_ = symbol;
    std::memcpy(symbols_, spec.symbols, sizeof(symbols_));
    fill_long_lookup(spec);
    return symbol_count_ > 0;
}

void CanonicalCode::fill_long_lookup(const HuffmanSpec& spec) noexcept {
    first_long_ = limits_[kLookupBits - 1] >> (16 - kLongLookupBits);
    std::fill(std::begin(long_lookup_), std::end(long_lookup_), Symbol{});
    int symbol = 0;
    for (int length = 1; length <= kLookupBits; ++length) symbol += spec.code_counts[length - 1];
    int index = 0;
    for (int length = kLookupBits + 1; length <= kLongLookupBits; ++length) {
        const int windows = 1 << (kLongLookupBits - length);
        for (int i = 0; i < spec.code_counts[length - 1]; ++i, ++symbol) {
            const Symbol entry = {static_cast<std::uint8_t>(length), spec.symbols[symbol]};
            for (int window = 0; window < windows; ++window, ++index) {
                if (index < kLongLookupSize) long_lookup_[index] = entry;
            }
        }
    }
}

Symbol CanonicalCode::search(std::uint64_t bits) const noexcept {
    const auto window = static_cast<std::uint16_t>(bits >> 48);
    // Limits never decrease, so this counts the lengths that are too short, without an unpredictable branch. They have
    // 16 bits each, so that all of them are two vectors.
    std::uint16_t too_short = 0;
    for (const std::uint16_t limit : limits_) too_short = static_cast<std::uint16_t>(too_short + (limit <= window));
    const int length = 1 + too_short;
    if (length > 16) return {};
    const std::int32_t code = window >> (16 - length);
    return {static_cast<std::uint8_t>(length), symbols_[code + symbol_offset_[length]]};
}

bool DcTable::build(const HuffmanSpec& spec) noexcept {
    if (!code.build(spec)) return false;
    for (int i = 0; i < code.symbol_count(); ++i) {
        if (code.symbols()[i] > kMaxDcSize) return false;
    }
    fill_lookup(spec, lookup);
    return true;
}

bool AcTable::build(const HuffmanSpec& spec) noexcept {
    if (!code.build(spec)) return false;
    for (int i = 0; i < code.symbol_count(); ++i) {
        const int run = code.symbols()[i] >> 4;
        const int size = code.symbols()[i] & 15;
        // Size 0 means EOB with run 0 and ZRL with run 15; a sequential file does not use the runs between.
        if (size > kMaxAcSize || (size == 0 && run != 0 && run != 15)) return false;
    }
    Symbol lookup[kLookupSize];
    fill_lookup(spec, lookup);
    std::memset(patterns, 0, sizeof(patterns));
    for (unsigned window = 0; window < kLookupSize; ++window) {
        steps[window] = AcStep{};
        StepBuilder(lookup, window, &steps[window], patterns[window]).build();
    }
    return true;
}

bool BandTable::build(const HuffmanSpec& spec) noexcept {
    if (!code.build(spec)) return false;
    largest_size = 0;
    for (int i = 0; i < code.symbol_count(); ++i) largest_size = std::max(largest_size, code.symbols()[i] & 15);
    if (largest_size > kMaxAcSize) return false;
    Symbol symbols[kLookupSize];
    fill_lookup(spec, symbols);
    for (int window = 0; window < kLookupSize; ++window) lookup[window] = band_symbol(symbols[window]);
    return true;
}

BandSymbol BandTable::find(std::uint64_t bits) const noexcept { return band_symbol(code.find(bits)); }

}  // namespace fastload::jpeg
