// Whole paths: one arena of bytes and an array of offsets.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/span.h"
#include "io/sample_index.h"

namespace fastload {

// A million paths take their bytes plus 8 each.
class ArenaIndex final : public SampleIndex {
  public:
    // Path i is arena[offsets[i], offsets[i + 1]). `owner` keeps both arrays alive. The caller has checked them with
    // is_valid.
    ArenaIndex(ByteSpan arena, Span<const std::int64_t> offsets, std::shared_ptr<const void> owner) noexcept
        : arena_(arena), offsets_(offsets), owner_(std::move(owner)) {}

    // True if the offsets begin at 0, never decrease and end inside the arena. Linear in their number.
    static bool is_valid(ByteSpan arena, Span<const std::int64_t> offsets) noexcept {
        if (offsets.is_empty() || offsets[0] != 0) return false;
        for (std::size_t i = 1; i < offsets.size(); ++i) {
            if (offsets[i] < offsets[i - 1]) return false;
        }
        return static_cast<std::uint64_t>(offsets[offsets.size() - 1]) <= arena.size();
    }

    std::int64_t num_samples() const noexcept override { return static_cast<std::int64_t>(offsets_.size()) - 1; }

    ByteSpan path(std::int64_t sample_index, PathBuffer* /*buffer*/) const noexcept override {
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
