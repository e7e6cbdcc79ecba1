#include "codec/jpeg/coefficient_planes.h"

#include <algorithm>
#include <cstring>

namespace fastload::jpeg {
namespace {

constexpr std::size_t kBlockValues = 64;

}  // namespace

// A component has at most 65500 samples on a side, so at most 8188 * 8188 blocks: no product here overflows.
Status CoefficientPlanes::begin(const Frame& frame, const McuWindow& window, std::uint64_t max_bytes) noexcept {
    std::uint64_t total_bytes = 0;
    for (int i = 0; i < frame.component_count; ++i) {
        const FrameComponent& component = frame.components[i];
        Plane& plane = planes_[i];
        plane.left = window.left * component.horizontal;
        plane.top = window.top * component.vertical;
        plane.wide = std::min(window.right * component.horizontal, component.blocks_wide) - plane.left;
        plane.high = std::min(window.bottom * component.vertical, component.blocks_high) - plane.top;
        plane.value_bytes = as_size(plane.wide) * as_size(plane.high) * kBlockValues * sizeof(std::int16_t);
        plane.mask_bytes = as_size(component.blocks_wide) * as_size(component.blocks_high) * sizeof(NonzeroMask);
        total_bytes += plane.value_bytes + plane.mask_bytes;
    }
    if (total_bytes > max_bytes) return {StatusCode::kLimitExceeded, 0, 0, "more coefficients than the limit"};
    return Status::ok();
}

Status CoefficientPlanes::reserve(int component) noexcept {
    const Plane& plane = planes_[component];
    Status status = values_[component].reserve(plane.value_bytes);
    if (status.is_ok()) status = masks_[component].reserve(plane.mask_bytes);
    if (!status.is_ok()) return status;
    std::memset(values_[component].data(), 0, plane.value_bytes);
    std::memset(masks_[component].data(), 0, plane.mask_bytes);
    return Status::ok();
}

std::int16_t* CoefficientPlanes::block(int component, std::int32_t block_column,
                                       std::int32_t block_row) const noexcept {
    const Plane& plane = planes_[component];
    auto* const values = reinterpret_cast<std::int16_t*>(values_[component].data());
    return values +
           (as_size(block_row - plane.top) * as_size(plane.wide) + as_size(block_column - plane.left)) * kBlockValues;
}

NonzeroMask* CoefficientPlanes::nonzero(int component) const noexcept {
    return reinterpret_cast<NonzeroMask*>(masks_[component].data());
}

std::size_t CoefficientPlanes::scratch_bytes() const noexcept {
    std::size_t bytes = 0;
    for (int i = 0; i < kMaxComponents; ++i) bytes += values_[i].capacity() + masks_[i].capacity();
    return bytes;
}

void CoefficientPlanes::release_scratch(ScratchRule rule) noexcept {
    for (int i = 0; i < kMaxComponents; ++i) {
        values_[i].release(rule);
        masks_[i].release(rule);
    }
}

}  // namespace fastload::jpeg
