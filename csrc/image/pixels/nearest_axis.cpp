#include "image/pixels/nearest_axis.h"

#include <cstddef>

namespace fastload {

void find_nearest_positions(double start, double step, std::int32_t limit, std::int32_t count,
                            std::int32_t* positions) noexcept {
    double position = start;
    for (std::int32_t i = 0; i < count; ++i) {
        const bool is_inside = position >= 0.0 && position < limit;
        positions[i] = is_inside ? static_cast<std::int32_t>(position) : -1;
        position += step;
    }
}

Status reserve_positions(ImageSize size, AlignedBuffer* scratch, AxisPositions* positions) noexcept {
    const auto width = static_cast<std::size_t>(size.width);
    const auto height = static_cast<std::size_t>(size.height);
    if (Status status = scratch->reserve((width + height) * sizeof(std::int32_t)); !status.is_ok()) return status;
    positions->columns = reinterpret_cast<std::int32_t*>(scratch->data());
    positions->rows = positions->columns + width;
    return Status::ok();
}

void gather_pixels(const PlanarImageView& source, const AxisPositions& positions,
                   const PlanarImageView& destination) noexcept {
    // Valid positions are contiguous: they increase or decrease along the axis.
    std::int32_t begin = 0;
    std::int32_t end = destination.width;
    while (begin < end && positions.columns[begin] < 0) ++begin;
    while (begin < end && positions.columns[end - 1] < 0) --end;
    for (int plane = 0; plane < 3; ++plane) {
        for (std::int32_t y = 0; y < destination.height; ++y) {
            if (positions.rows[y] < 0) continue;
            const std::uint8_t* row =
                source.planes[plane] + static_cast<std::size_t>(positions.rows[y]) * source.row_stride_bytes;
            std::uint8_t* output =
                destination.planes[plane] + static_cast<std::size_t>(y) * destination.row_stride_bytes;
            for (std::int32_t x = begin; x < end; ++x) output[x] = row[positions.columns[x]];
        }
    }
}

Status resize_nearest(const PlanarImageView& source, const PlanarImageView& destination,
                      AlignedBuffer* scratch) noexcept {
    AxisPositions positions;
    if (Status status = reserve_positions({destination.width, destination.height}, scratch, &positions);
        !status.is_ok()) {
        return status;
    }
    // Starts half a step in, at the centre of the first pixel. The last one stays inside if a side is below some 10^7.
    const double column_step = static_cast<double>(source.width) / destination.width;
    const double row_step = static_cast<double>(source.height) / destination.height;
    find_nearest_positions(column_step * 0.5, column_step, source.width, destination.width, positions.columns);
    find_nearest_positions(row_step * 0.5, row_step, source.height, destination.height, positions.rows);
    gather_pixels(source, positions, destination);
    return Status::ok();
}

}  // namespace fastload
