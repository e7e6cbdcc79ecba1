#include "image/steps/random_erasing.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace fastload {
namespace {

// One channel of the box; `first` is its first element.
void erase_channel(std::uint8_t* first, const Region& box, std::size_t element_stride_bytes,
                   std::size_t row_stride_bytes, const std::uint8_t* value, std::size_t element_bytes) noexcept {
    for (std::int32_t y = 0; y < box.height; ++y) {
        std::uint8_t* element = first + static_cast<std::size_t>(y) * row_stride_bytes;
        for (std::int32_t x = 0; x < box.width; ++x) {
            std::memcpy(element, value, element_bytes);
            element += element_stride_bytes;
        }
    }
}

}  // namespace

std::optional<Region> choose_erased_box(ImageSize image, const RandomBoxRule& rule, DrawSource* draws) noexcept {
    const double area = static_cast<double>(image.width) * image.height;
    const auto scale_from = static_cast<float>(rule.scale[0]);
    const auto scale_to = static_cast<float>(rule.scale[1]);
    for (int attempt = 0; attempt < 10; ++attempt) {
        const double erased_area = area * static_cast<double>(draws->uniform(scale_from, scale_to));
        const auto aspect = static_cast<double>(draws->uniform_exp(rule.log_ratio));
        const double height = round_half_even(std::sqrt(erased_area * aspect));
        const double width = round_half_even(std::sqrt(erased_area / aspect));
        if (!(height < image.height && width < image.width)) continue;
        Region box{0, 0, static_cast<std::int32_t>(width), static_cast<std::int32_t>(height)};
        box.top = static_cast<std::int32_t>(draws->below(static_cast<std::uint32_t>(image.height - box.height + 1)));
        box.left = static_cast<std::int32_t>(draws->below(static_cast<std::uint32_t>(image.width - box.width + 1)));
        return box;
    }
    return std::nullopt;
}

void erase_elements(const OutputLayout& layout, ImageSize size, const Region& box, Span<const std::uint8_t> value,
                    void* sample) noexcept {
    const auto element_bytes = static_cast<std::size_t>(layout.element_size_bytes);
    const auto width = static_cast<std::size_t>(size.width);
    const std::size_t plane = width * static_cast<std::size_t>(size.height);
    const std::size_t pixel = static_cast<std::size_t>(box.top) * width + static_cast<std::size_t>(box.left);
    const std::size_t step = layout.channels_last ? 3 : 1;
    for (std::size_t channel = 0; channel < 3; ++channel) {
        const std::size_t first = layout.channels_last ? 3 * pixel + channel : channel * plane + pixel;
        erase_channel(static_cast<std::uint8_t*>(sample) + first * element_bytes, box, step * element_bytes,
                      step * width * element_bytes, value.data() + channel * element_bytes, element_bytes);
    }
}

}  // namespace fastload
