#include "image/steps/transpositions.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "image/plan/described_image.h"
#include "image/plan/working_image.h"

namespace fastload {
namespace {

class HorizontalFlip final : public Operation {
  public:
    Status run(WorkingImage* image) const noexcept override {
        image->flip();
        return Status::ok();
    }
    bool describe(DescribedImage* image) const noexcept override {
        image->flip();
        return true;
    }
    OperationReport report() const override { return {"hflip"}; }
};

}  // namespace

Status VerticalFlip::remake(const PlanarImageView& source, const PlanarImageView& destination,
                            Workspace*) const noexcept {
    for (int plane = 0; plane < 3; ++plane) {
        for (std::int32_t y = 0; y < source.height; ++y) {
            std::memcpy(destination.row(plane, source.height - 1 - y), source.row(plane, y),
                        static_cast<std::size_t>(source.width));
        }
    }
    return Status::ok();
}

Status Rotate180::remake(const PlanarImageView& source, const PlanarImageView& destination, Workspace*) const noexcept {
    for (int plane = 0; plane < 3; ++plane) {
        for (std::int32_t y = 0; y < source.height; ++y) {
            const std::uint8_t* row = source.row(plane, y);
            std::reverse_copy(row, row + source.width, destination.row(plane, source.height - 1 - y));
        }
    }
    return Status::ok();
}

// In squares, so that the written rows stay in the cache.
Status AxisExchange::remake(const PlanarImageView& source, const PlanarImageView& destination,
                            Workspace*) const noexcept {
    constexpr std::int32_t kSquare = 32;
    // Here, since the stores below may change any member as far as a compiler knows.
    const std::size_t stride_bytes = source.row_stride_bytes;
    const std::int32_t step = reverses_columns_ ? -1 : 1;
    for (int plane = 0; plane < 3; ++plane) {
        for (std::int32_t top = 0; top < source.height; top += kSquare) {
            const std::int32_t bottom = std::min(top + kSquare, source.height);
            for (std::int32_t x = 0; x < source.width; ++x) {
                const std::uint8_t* column = source.planes[plane] + x;
                std::uint8_t* output = destination.row(plane, reverses_rows_ ? source.width - 1 - x : x);
                output += reverses_columns_ ? source.height - 1 - top : top;
                for (std::int32_t y = top; y < bottom; ++y) {
                    output[step * (y - top)] = column[static_cast<std::size_t>(y) * stride_bytes];
                }
            }
        }
    }
    return Status::ok();
}

Status RandomHorizontalFlip::resolve(DrawSource* draws, Resolver* resolver) const noexcept {
    if (happens(draws)) {
        resolver->make(HorizontalFlip());
        resolver->flip();
    }
    return Status::ok();
}

Status RandomVerticalFlip::resolve(DrawSource* draws, Resolver* resolver) const noexcept {
    if (happens(draws)) list_made_op(VerticalFlip(), resolver);
    return Status::ok();
}

}  // namespace fastload
