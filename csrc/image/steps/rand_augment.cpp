#include "image/steps/rand_augment.h"

#include "image/plan/argument_checks.h"

namespace fastload {

std::string RandAugment::check() const {
    if (num_ops < 0 || num_ops > kMaxOps) return sentence("num_ops", "in 0.." + std::to_string(kMaxOps), num_ops);
    std::string problem = check_choices("choices", choices);
    for (std::size_t i = 0; problem.empty() && i < choices.size(); ++i) {
        const std::int32_t num_bins = choices[i]->num_bins;
        if (num_bins != 1) problem = sentence("choices[" + std::to_string(i) + "].num_bins", "1", num_bins);
    }
    return problem;
}

Status RandAugment::resolve(DrawSource* draws, Resolver* resolver) const noexcept {
    for (std::int32_t i = 0; i < num_ops; ++i) list_drawn_choice(choices, family, draws, resolver);
    return Status::ok();
}

}  // namespace fastload
