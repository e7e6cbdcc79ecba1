// Several indexes, one after the other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "io/sample_index.h"

namespace fastload {

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
