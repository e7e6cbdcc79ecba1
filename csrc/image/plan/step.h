// The steps of a pipeline as the user wrote them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/image_view.h"
#include "base/status.h"
#include "image/plan/image_sides.h"
#include "image/plan/resolver.h"
#include "image/random/draw_source.h"

namespace fastload {

// Returns torch's own exp of the numbers between two bounds.
using FindTorchExp = std::function<std::shared_ptr<const TorchExp>(float from, float to)>;

// Immutable once it is part of a plan; shared by all threads. The kinds are in steps/.
class Step {
  public:
    virtual ~Step() = default;

    // Names the wrong argument, its value and what is allowed; empty if all are valid. Only valid steps may be part of
    // a plan.
    virtual std::string check() const = 0;

    // The size after the step, nothing if it depends on the source or on a draw. `before` is the size before the step,
    // if known. The size need not be a possible one.
    virtual std::optional<LongSize> size_after(std::optional<ImageSize> before) const {
        return before ? std::optional<LongSize>(*before) : std::nullopt;
    }

    // True if resolve() draws.
    virtual bool is_random() const noexcept { return true; }

    // The largest number of operations for a sample.
    virtual std::size_t max_operations() const noexcept { return 1; }

    // Makes the choices for one sample in torchvision's order, and lists the operations. Fails with kInvalidGeometry if
    // the step cannot be applied to an image of the given size.
    virtual Status resolve(DrawSource* draws, Resolver* resolver) const noexcept = 0;

    // A copy that draws logarithms with torch's own exp; null if the step draws none.
    virtual std::shared_ptr<Step> with_torch_exp(const FindTorchExp& /*find*/) const { return nullptr; }

    // True if it works on finished elements, which only the last step can do.
    virtual bool is_on_elements() const noexcept { return false; }
    // Like check(), for a plan that writes elements in `layout`.
    virtual std::string check_layout(const OutputLayout& /*layout*/) const { return ""; }
};

// A step that makes every image the same size.
struct SizedStep : Step {
    std::int32_t height = 0;
    std::int32_t width = 0;

    std::string check() const override;
    std::optional<LongSize> size_after(std::optional<ImageSize>) const final { return LongSize(width, height); }
};

// A step that may be left out. Without a probability it always runs, and draws nothing.
struct MaybeStep : Step {
    std::optional<double> probability;

    std::string check() const override;
    bool is_random() const noexcept final { return probability.has_value(); }

  protected:
    bool happens(DrawSource* draws) const noexcept { return !probability || draws->happens(*probability); }
};

// A step and its position: `position` is its index in the user's flattened pipeline, nested steps included. It names
// the step's draws if they come from a counter.
struct PlacedStep {
    std::uint32_t position = 0;
    std::shared_ptr<const Step> step;
};

using Steps = std::vector<PlacedStep>;

// The first problem of a step, with its index as prefix.
std::string check_steps(const Steps& steps);

// The size after all steps, as for a single one; nothing if a step gives a size that no image can have.
std::optional<ImageSize> size_after(const Steps& steps, std::optional<ImageSize> before);

std::size_t count_operations(const Steps& steps) noexcept;

Status resolve_steps(const Steps& steps, DrawSource* draws, Resolver* resolver) noexcept;

}  // namespace fastload
