#include "bindings/bind_fields.h"
#include "bindings/bind_steps.h"
#include "bindings/step_casters.h"
#include "image/steps/auto_augment.h"
#include "image/steps/policy_choice.h"
#include "image/steps/rand_augment.h"
#include "image/steps/trivial_augment_wide.h"

namespace fastload {

void bind_policies(pybind11::module_& m) {
    pybind11::class_<PolicyChoice, std::shared_ptr<PolicyChoice>> choice(m, "PolicyChoice");
    compare_by_fields(choice);
    bind_fields(choice, field<&PolicyChoice::ops>("ops"), field<&PolicyChoice::is_signed>("is_signed"),
                field<&PolicyChoice::num_bins>("num_bins"), field<&PolicyChoice::probability>("probability"));
    bind_fields(StepClass<RandAugment>(m, "RandAugment"), field<&RandAugment::num_ops>("num_ops"),
                field<&RandAugment::choices>("choices"), field<&RandAugment::family>("family"));
    bind_fields(StepClass<TrivialAugmentWide>(m, "TrivialAugmentWide"), field<&TrivialAugmentWide::choices>("choices"),
                field<&TrivialAugmentWide::family>("family"));
    bind_fields(StepClass<AutoAugment>(m, "AutoAugment"), field<&AutoAugment::policies>("policies"),
                field<&AutoAugment::family>("family"));
    m.attr("MAX_POLICY_OPS") = RandAugment::kMaxOps;
}

}  // namespace fastload
