#include "codec/jpeg/coefficient_rows.h"

namespace fastload::jpeg {
namespace {

constexpr std::size_t kBlockValues = 64;

std::size_t as_size(std::int32_t value) { return static_cast<std::size_t>(value); }

}  // namespace

// A side has at most 65500 samples, and factors are at most 4: no product here overflows.
Status CoefficientRows::begin(const Frame& frame, std::int32_t mcu_rows, std::uint64_t max_bytes) noexcept {
    std::size_t blocks = 0;
    for (int i = 0; i < frame.component_count; ++i) {
        const FrameComponent& component = frame.components[i];
        first_block_[i] = blocks;
        blocks_wide_[i] = as_size(frame.mcus_wide) * as_size(component.horizontal);
        blocks += blocks_wide_[i] * as_size(mcu_rows) * as_size(component.vertical);
    }
    const std::size_t bytes = blocks * kBlockValues * sizeof(std::int16_t);
    if (bytes > max_bytes) return {StatusCode::kLimitExceeded, 0, 0, "more coefficients than the limit"};
    return blocks_.reserve(bytes);
}

std::int16_t* CoefficientRows::block(int component, std::int32_t block_column, std::int32_t block_row) const noexcept {
    const std::size_t block =
        first_block_[component] + as_size(block_row) * blocks_wide_[component] + as_size(block_column);
    return reinterpret_cast<std::int16_t*>(blocks_.data()) + block * kBlockValues;
}

}  // namespace fastload::jpeg
