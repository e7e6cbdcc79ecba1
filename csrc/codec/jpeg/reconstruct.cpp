#include "codec/jpeg/reconstruct.h"

#include <algorithm>
#include <cstring>

#include "base/checked_math.h"

namespace fastload::jpeg {
namespace {

constexpr std::size_t kBlockBytes = 64;
constexpr std::size_t kColumnBytes = kStripRows;

// Pixel columns (or rows) [first, last] of the image, as MCU columns of one component with `margin` samples around.
struct McuRange {
    std::int32_t first;
    std::int32_t end;
};

McuRange mcu_range(std::int32_t first, std::int32_t last, int expansion, int margin, std::int32_t size, int factor) {
    const std::int32_t first_sample = std::max(first / expansion - margin, 0);
    const std::int32_t last_sample = std::min(last / expansion + margin, size - 1);
    return {first_sample / (8 * factor), last_sample / (8 * factor) + 1};
}

// Copies one sample row of a plane, columns -1 to `columns`, between strips.
void copy_row(const std::uint8_t* from, std::uint8_t* to, std::int32_t columns) {
    const auto end = static_cast<std::ptrdiff_t>(columns) + 1;
    for (std::ptrdiff_t column = -1; column < end; ++column) to[column * 8] = from[column * 8];
}

}  // namespace

// libjpeg filters only components that are more than two samples wide; rows alone are always filtered.
Upsampling upsampling_of(const FrameComponent& component) noexcept {
    const int horizontal = component.horizontal_expansion;
    const int vertical = component.vertical_expansion;
    if (horizontal == 1 && vertical == 1) return Upsampling::kNone;
    if (horizontal == 1 && vertical == 2) return Upsampling::kH1v2;
    if (horizontal == 2 && component.width > 2) return vertical == 1 ? Upsampling::kH2v1 : Upsampling::kH2v2;
    return Upsampling::kReplicate;
}

McuWindow decode_window(const Frame& frame, const Region& region) noexcept {
    McuWindow window = {INT32_MAX, 0, INT32_MAX, 0};
    for (int i = 0; i < frame.component_count; ++i) {
        const FrameComponent& component = frame.components[i];
        const Upsampling upsampling = upsampling_of(component);
        const int column_margin = upsampling == Upsampling::kH2v1 || upsampling == Upsampling::kH2v2;
        const int row_margin = upsampling == Upsampling::kH1v2 || upsampling == Upsampling::kH2v2;
        const McuRange columns = mcu_range(region.left, region.left + region.width - 1, component.horizontal_expansion,
                                           column_margin, component.width, component.horizontal);
        const McuRange rows = mcu_range(region.top, region.top + region.height - 1, component.vertical_expansion,
                                        row_margin, component.height, component.vertical);
        window.left = std::min(window.left, columns.first);
        window.right = std::max(window.right, columns.end);
        window.top = std::min(window.top, rows.first);
        window.bottom = std::max(window.bottom, rows.end);
    }
    return window;
}

Status Reconstructor::prepare(const Frame& frame, ColorModel color, const Region& region) noexcept {
    frame_ = &frame;
    color_ = color;
    window_ = decode_window(frame, region);
    const Status status = lay_out_planes();
    if (!status.is_ok()) return status;
    view_ = {};
    for (int i = 0; i < 3; ++i) view_.planes[i] = planes_[color == ColorModel::kGray ? 0 : i].upsampled;
    view_.strip_stride_bytes = full_stride_bytes_;
    view_.left = region.left - window_.left * 8 * frame.max_horizontal;
    view_.top = region.top - window_.top * 8 * frame.max_vertical;
    view_.width = region.width;
    view_.height = region.height;
    return Status::ok();
}

// A filtered component has room for a column on each side of its strips (a block, to keep the alignment) and for a
// strip above and below, which Note [strip neighbours] requires.
Status Reconstructor::lay_out_planes() noexcept {
    const std::size_t mcu_columns = as_size(window_.right - window_.left);
    const std::size_t mcu_rows = as_size(window_.bottom - window_.top);
    std::size_t full_bytes = 0;
    if (!checked_multiply(mcu_columns * as_size(frame_->max_horizontal), kBlockBytes, &full_stride_bytes_) ||
        !checked_multiply(full_stride_bytes_, mcu_rows * as_size(frame_->max_vertical), &full_bytes) ||
        !checked_add(full_bytes, kStripSlackBytes, &full_bytes)) {
        return {StatusCode::kOutOfMemory, 0, 0, "a plane size overflows"};
    }
    needs_row_below_ = false;
    for (int i = 0; i < frame_->component_count; ++i) {
        const FrameComponent& component = frame_->components[i];
        Plane& plane = planes_[i];
        plane.upsampling = upsampling_of(component);
        const bool is_full = plane.upsampling == Upsampling::kNone;
        const std::size_t border = is_full ? 0 : 1;
        // Smaller than the full plane except for the border, so these products fit as well.
        plane.strip_stride_bytes = (mcu_columns * as_size(component.horizontal) + 2 * border) * kBlockBytes;
        const std::size_t strips = mcu_rows * as_size(component.vertical) + 2 * border;
        Status status = samples_[i].reserve(plane.strip_stride_bytes * strips + kStripSlackBytes);
        if (status.is_ok() && !is_full) status = upsampled_[i].reserve(full_bytes);
        if (!status.is_ok()) return status;
        plane.samples = samples_[i].data() + border * (plane.strip_stride_bytes + kBlockBytes);
        plane.upsampled = is_full ? plane.samples : upsampled_[i].data();
        const std::int32_t first_column = window_.left * 8 * component.horizontal;
        const std::int32_t first_row = window_.top * 8 * component.vertical;
        plane.columns = std::min(component.width, window_.right * 8 * component.horizontal) - first_column;
        plane.rows = std::min(component.height, window_.bottom * 8 * component.vertical) - first_row;
        if (plane.upsampling == Upsampling::kH1v2 || plane.upsampling == Upsampling::kH2v2) needs_row_below_ = true;
    }
    return Status::ok();
}

std::uint8_t* Reconstructor::block(int component, std::int32_t block_column, std::int32_t block_row) const noexcept {
    const FrameComponent& facts = frame_->components[component];
    const Plane& plane = planes_[component];
    const std::size_t strip = as_size(block_row - window_.top * facts.vertical);
    const std::size_t column = as_size(block_column - window_.left * facts.horizontal);
    return plane.samples + strip * plane.strip_stride_bytes + column * kBlockBytes;
}

// The upsampling of an MCU row's last strip needs the first row of the strip below, so the rows of a vertically
// filtered component are emitted one MCU row late.
void Reconstructor::mcu_row_is_complete(std::int32_t mcu_row) noexcept {
    const bool is_first = mcu_row == window_.top;
    const bool is_last = mcu_row == window_.bottom - 1;
    for (int i = 0; i < frame_->component_count; ++i) {
        const Plane& plane = planes_[i];
        if (plane.upsampling == Upsampling::kNone) continue;
        pad_columns(frame_->components[i], plane, mcu_row);
        if (is_first) pad_top(plane);
        if (is_last) pad_bottom(plane);
    }
    if (!needs_row_below_) return emit_mcu_row(mcu_row);
    if (!is_first) emit_mcu_row(mcu_row - 1);
    if (is_last) emit_mcu_row(mcu_row);
}

// Starts at the real width, not at the width of the blocks: overwrites the file's data after it.
void Reconstructor::pad_columns(const FrameComponent& component, const Plane& plane,
                                std::int32_t mcu_row) const noexcept {
    const std::size_t first = as_size((mcu_row - window_.top) * component.vertical);
    for (std::size_t strip = first; strip < first + as_size(component.vertical); ++strip) {
        std::uint8_t* const samples = plane.samples + strip * plane.strip_stride_bytes;
        std::uint8_t* const behind = samples + as_size(plane.columns) * kColumnBytes;
        std::memcpy(samples - kColumnBytes, samples, kColumnBytes);
        std::memcpy(behind, behind - kColumnBytes, kColumnBytes);
    }
}

void Reconstructor::pad_top(const Plane& plane) const noexcept {
    copy_row(plane.samples, plane.samples - plane.strip_stride_bytes + 7, plane.columns);
}

void Reconstructor::pad_bottom(const Plane& plane) const noexcept {
    const auto row = [&plane](std::int32_t y) {
        return plane.samples + as_size(y) / kStripRows * plane.strip_stride_bytes + as_size(y) % kStripRows;
    };
    copy_row(row(plane.rows - 1), row(plane.rows), plane.columns);
}

void Reconstructor::emit_mcu_row(std::int32_t mcu_row) const noexcept {
    for (int i = 0; i < frame_->component_count; ++i) {
        const FrameComponent& component = frame_->components[i];
        if (planes_[i].upsampling == Upsampling::kNone) continue;
        const std::int32_t first = (mcu_row - window_.top) * component.vertical;
        for (std::int32_t strip = first; strip < first + component.vertical; ++strip) {
            upsample_strip(component, planes_[i], strip);
        }
    }
    if (color_ == ColorModel::kYcc) convert_strips(mcu_row);
}

// Upsamples a plane that is not at full resolution already.
void Reconstructor::upsample_strip(const FrameComponent& component, const Plane& plane,
                                   std::int32_t strip) const noexcept {
    const std::uint8_t* const samples = plane.samples + as_size(strip) * plane.strip_stride_bytes;
    const StripNeighbours strips = {samples - plane.strip_stride_bytes, samples, samples + plane.strip_stride_bytes};
    std::uint8_t* const upper = plane.upsampled + as_size(strip * component.vertical_expansion) * full_stride_bytes_;
    std::uint8_t* const lower = upper + full_stride_bytes_;
    const std::size_t columns = as_size(plane.columns);
    if (plane.upsampling == Upsampling::kH2v1) return kernels_.upsample_h2v1(samples, upper, columns);
    if (plane.upsampling == Upsampling::kH1v2) return kernels_.upsample_h1v2(strips, upper, lower, columns);
    if (plane.upsampling == Upsampling::kH2v2) return kernels_.upsample_h2v2(strips, upper, lower, columns);
    const auto wide = as_size(component.horizontal_expansion);
    const auto high = as_size(component.vertical_expansion);
    for (std::size_t row = 0; row < kStripRows * high; ++row) {
        std::uint8_t* const out = (row < kStripRows ? upper : lower) + row % kStripRows;
        const std::uint8_t* const in = samples + row / high;
        for (std::size_t x = 0; x < columns * wide; ++x) out[x * kColumnBytes] = in[x / wide * kColumnBytes];
    }
}

// Converts only the region's columns and strips; the rest of the window stays as it is.
void Reconstructor::convert_strips(std::int32_t mcu_row) const noexcept {
    const std::int32_t first = (mcu_row - window_.top) * frame_->max_vertical;
    const std::int32_t first_wanted = view_.top / 8;
    const std::int32_t last_wanted = (view_.top + view_.height - 1) / 8;
    const std::int32_t begin = std::max(first, first_wanted);
    const std::int32_t end = std::min(first + frame_->max_vertical, last_wanted + 1);
    for (std::int32_t strip = begin; strip < end; ++strip) {
        const std::size_t offset = as_size(strip) * full_stride_bytes_ + as_size(view_.left) * kColumnBytes;
        kernels_.ycc_to_rgb(planes_[0].upsampled + offset, planes_[1].upsampled + offset, planes_[2].upsampled + offset,
                            as_size(view_.width) * kColumnBytes);
    }
}

std::size_t Reconstructor::scratch_bytes() const noexcept {
    std::size_t bytes = 0;
    for (int i = 0; i < kMaxComponents; ++i) bytes += samples_[i].capacity() + upsampled_[i].capacity();
    return bytes;
}

void Reconstructor::release_scratch(ScratchRule rule) noexcept {
    for (int i = 0; i < kMaxComponents; ++i) {
        samples_[i].release(rule);
        upsampled_[i].release(rule);
    }
}

}  // namespace fastload::jpeg
