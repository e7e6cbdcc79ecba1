#include "image/pixels/nearest_axis.h"

#include <cstddef>

namespace fastload {

void find_nearest_positions(const AxisScale& scale, std::int32_t limit, std::int32_t count,
                            std::int32_t* positions) noexcept {
    double position = scale.offset + scale.step * 0.5;
    for (std::int32_t i = 0; i < count; ++i) {
        const bool is_inside = position >= 0.0 && position < limit;
        positions[i] = is_inside ? static_cast<std::int32_t>(position) : -1;
        position += scale.step;
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
            const std::uint8_t* row = source.row(plane, positions.rows[y]);
            std::uint8_t* output = destination.row(plane, y);
            for (std::int32_t x = begin; x < end; ++x) output[x] = row[positions.columns[x]];
        }
    }
}

Status scale_nearest(const PlanarImageView& source, const AxisScale& columns, const AxisScale& rows,
                     const PlanarImageView& destination, AlignedBuffer* scratch) noexcept {
    AxisPositions positions;
    if (Status status = reserve_positions({destination.width, destination.height}, scratch, &positions);
        !status.is_ok()) {
        return status;
    }
    find_nearest_positions(columns, source.width, destination.width, positions.columns);
    find_nearest_positions(rows, source.height, destination.height, positions.rows);
    gather_pixels(source, positions, destination);
    return Status::ok();
}

}  // namespace fastload
