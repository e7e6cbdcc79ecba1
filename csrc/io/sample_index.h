// The files of a dataset by number, in whichever compact form holds their names.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/span.h"

namespace fastload {

// The buffer in which a path is put together; longer paths cannot be in an index. The system opens at most half of it
// (PATH_MAX).
using PathBuffer = std::array<std::uint8_t, 8192>;

// Immutable after construction and shared by all threads.
class SampleIndex {
  public:
    virtual ~SampleIndex() = default;

    virtual std::int64_t num_samples() const noexcept = 0;

    // The path of a sample in [0, num_samples()), not terminated by NUL. It may lie in *buffer, and is then valid until
    // the buffer's next use.
    virtual ByteSpan path(std::int64_t sample_index, PathBuffer* buffer) const noexcept = 0;
};

// Whole paths: one arena of bytes and an array of offsets. A million paths take their bytes plus 8 each.
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

// Several indexes, one after the other.
class JoinedIndex final : public SampleIndex {
  public:
    // May throw std::bad_alloc.
    explicit JoinedIndex(std::vector<std::shared_ptr<const SampleIndex>> parts) : parts_(std::move(parts)) {
        std::int64_t end = 0;
        for (const auto& part : parts_) ends_.push_back(end += part->num_samples());
    }

    std::int64_t num_samples() const noexcept override { return ends_.empty() ? 0 : ends_.back(); }

    ByteSpan path(std::int64_t sample_index, PathBuffer* buffer) const noexcept override {
        const auto end = std::upper_bound(ends_.begin(), ends_.end(), sample_index);
        const auto part = static_cast<std::size_t>(end - ends_.begin());
        const std::int64_t begin = part == 0 ? 0 : ends_[part - 1];
        return parts_[part]->path(sample_index - begin, buffer);
    }

  private:
    std::vector<std::shared_ptr<const SampleIndex>> parts_;
    std::vector<std::int64_t> ends_;
};

}  // namespace fastload
