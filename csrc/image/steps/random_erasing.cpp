#include "image/steps/random_erasing.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "image/plan/argument_checks.h"

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

class Erase final : public Operation {
  public:
    Erase(const Region& box, const RandomErasing& step) noexcept : box_(box), step_(step) {}

    Status run(WorkingImage*) const noexcept override { return Status::ok(); }
    void run_on_elements(const OutputLayout& layout, ImageSize size, void* sample) const noexcept override {
        erase_elements(layout, size, box_, value(), sample);
    }
    OperationReport report() const override { return {"erase", box_.left, box_.top, box_.width, box_.height, value()}; }

  private:
    ByteSpan value() const noexcept {
        return {reinterpret_cast<const std::uint8_t*>(step_.value.data()), step_.value.size()};
    }

    Region box_;
    const RandomErasing& step_;
};

}  // namespace

std::string RandomErasing::check() const { return first_of(check_probability(probability), check_box_rule(*this)); }

std::string RandomErasing::check_layout(const OutputLayout& layout) const {
    const std::size_t expected = 3 * static_cast<std::size_t>(layout.element_size_bytes);
    if (value.size() == expected) return "";
    return sentence("value", "3 * element_size = " + std::to_string(expected) + " bytes", value.size());
}

Status RandomErasing::resolve(DrawSource* draws, Resolver* resolver) const noexcept {
    if (!draws->happens(probability)) return Status::ok();
    const std::optional<Region> box = choose_erased_box(resolver->size(), *this, draws);
    if (box) resolver->make(Erase(*box, *this));
    return Status::ok();
}

std::shared_ptr<Step> RandomErasing::with_torch_exp(const FindTorchExp& find) const {
    auto copy = std::make_shared<RandomErasing>(*this);
    copy->torch_exp = find(log_ratio.first, log_ratio.second);
    return copy;
}

std::optional<Region> choose_erased_box(ImageSize image, const RandomBoxRule& rule, DrawSource* draws) noexcept {
    for (int attempt = 0; attempt < 10; ++attempt) {
        const auto [height, width] = draw_box_sides(image, rule, draws);
        if (!(height < image.height && width < image.width)) continue;
        return draw_box_place(image, width, height, draws);
    }
    return std::nullopt;
}

void erase_elements(const OutputLayout& layout, ImageSize size, const Region& box, ByteSpan value,
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
