#include "image/plan/argument_checks.h"

#include "image/plan/image_sides.h"

namespace fastload {

std::string pair_text(double first, double second) {
    std::ostringstream text;
    text << "(" << first << ", " << second << ")";
    return text.str();
}

std::string check_side(const std::string& name, std::int32_t value, std::int32_t least) {
    if (value >= least && value <= kMaxImageSide) return "";
    return sentence(name, "in " + std::to_string(least) + ".." + std::to_string(kMaxImageSide), value);
}

std::string check_probability(double probability) {
    return probability >= 0.0 && probability <= 1.0 ? "" : sentence("probability", "in [0, 1]", probability);
}

}  // namespace fastload
