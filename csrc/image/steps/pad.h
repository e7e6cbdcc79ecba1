// torchvision's Pad: rows and columns around an image.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/aligned_buffer.h"
#include "base/enum_names.h"
#include "image/pixels/fill_image.h"
#include "image/plan/step.h"

namespace fastload {

enum class PaddingMode : std::uint8_t {
    kConstant,
    kEdge,       // the outermost pixel again
    kReflect,    // mirrored without it: 3 2 | 1 2 3 | 2 1
    kSymmetric,  // mirrored with it: 2 1 | 1 2 3 | 3 2
};

template <>
struct EnumNames<PaddingMode> {
    static constexpr const char* kArgument = "padding_mode";
    static constexpr std::pair<const char*, PaddingMode> kNames[] = {{"constant", PaddingMode::kConstant},
                                                                     {"edge", PaddingMode::kEdge},
                                                                     {"reflect", PaddingMode::kReflect},
                                                                     {"symmetric", PaddingMode::kSymmetric}};
};

// The padding around an image.
struct Padding {
    std::int32_t left = 0;
    std::int32_t top = 0;
    std::int32_t right = 0;
    std::int32_t bottom = 0;
    PaddingMode mode = PaddingMode::kConstant;
    RgbFill fill{};  // for kConstant

    bool is_empty() const noexcept { return left == 0 && top == 0 && right == 0 && bottom == 0; }
    // Zeros move no pixel: a placement describes them.
    bool is_zeros() const noexcept { return mode == PaddingMode::kConstant && fill == RgbFill{}; }
};

// Writes all of `destination`, which has the resulting size and does not overlap `source`. Mirroring continues if the
// padding is wider than the image. Fails with kOutOfMemory only.
Status write_padded(const PlanarImageView& source, const Padding& padding, const PlanarImageView& destination,
                    AlignedBuffer* scratch) noexcept;

struct Pad final : Step, Padding {
    std::string check() const override;
    std::optional<LongSize> size_after(std::optional<ImageSize> before) const override;
    bool is_random() const noexcept override { return false; }
    Status resolve(DrawSource* draws, Resolver* resolver) const noexcept override;
};

// Lists a padding; every step that pads calls this. Fails with kInvalidGeometry if no image can have the resulting
// size.
Status pad_image(const Padding& padding, Resolver* resolver) noexcept;

}  // namespace fastload
