#include "image/steps/color_ops.h"

#include <cmath>

#include "image/plan/argument_checks.h"

namespace fastload {

std::string Posterize::check() const { return bits >= 1 && bits <= 8 ? "" : sentence("bits", "in 1..8", bits); }

std::string Solarize::check() const {
    return std::isnan(threshold) ? sentence("threshold", "a number", threshold) : "";
}

}  // namespace fastload
