// The paths of a dataset, compact: one arena of bytes and an array of offsets.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/span.h"

namespace fastload {

// Immutable after construction and shared by all threads. A million paths cost their bytes plus 8 each.
class SampleIndex {
  public:
    // Path i is arena[offsets[i], offsets[i + 1]). `owner` keeps both arrays alive. The caller has checked them with
    // is_valid.
    SampleIndex(ByteSpan arena, Span<const std::int64_t> offsets, std::shared_ptr<const void> owner) noexcept
        : arena_(arena), offsets_(offsets), owner_(std::move(owner)) {}

    // True where the offsets begin at 0, never fall and end inside the arena. Linear in their number.
    static bool is_valid(ByteSpan arena, Span<const std::int64_t> offsets) noexcept;

    std::int64_t num_samples() const noexcept { return static_cast<std::int64_t>(offsets_.size()) - 1; }

    // The path of a sample in [0, num_samples()), not terminated by NUL.
    ByteSpan path(std::int64_t sample_index) const noexcept {
        const auto begin = static_cast<std::size_t>(offsets_[static_cast<std::size_t>(sample_index)]);
        const auto end = static_cast<std::size_t>(offsets_[static_cast<std::size_t>(sample_index) + 1]);
        return arena_.subspan(begin, end - begin);
    }

  private:
    ByteSpan arena_;
    Span<const std::int64_t> offsets_;
    std::shared_ptr<const void> owner_;
};

}  // namespace fastload
