#include "bindings/bind_fields.h"
#include "bindings/bind_steps.h"
#include "bindings/step_casters.h"
#include "image/steps/apply_op.h"
#include "image/steps/color_jitter.h"
#include "image/steps/random_apply.h"
#include "image/steps/random_erasing.h"
#include "image/steps/random_flip.h"
#include "image/steps/random_rotation.h"

namespace fastload {

void bind_random_steps(pybind11::module_& m) {
    bind_fields(StepClass<RandomHorizontalFlip>(m, "RandomHorizontalFlip"),
                field<&RandomHorizontalFlip::probability>("probability"));
    bind_fields(StepClass<RandomVerticalFlip>(m, "RandomVerticalFlip"),
                field<&RandomVerticalFlip::probability>("probability"));
    bind_fields(StepClass<RandomApply>(m, "RandomApply"), field<&RandomApply::probability>("probability"),
                field<&RandomApply::family>("family"), field<&RandomApply::steps>("steps"));
    bind_fields(StepClass<ApplyOp>(m, "ApplyOp"), field<&ApplyOp::op>("op"),
                field<&ApplyOp::probability>("probability"));
    bind_fields(StepClass<ColorJitter>(m, "ColorJitter"), field<&ColorJitter::brightness>("brightness"),
                field<&ColorJitter::contrast>("contrast"), field<&ColorJitter::saturation>("saturation"),
                field<&ColorJitter::hue>("hue"));
    bind_fields(StepClass<RandomRotation>(m, "RandomRotation"), field<&RandomRotation::degrees>("degrees"),
                field<&RandomRotation::center>("center"), field<&RandomRotation::fill>("fill"));
    bind_fields(StepClass<RandomErasing>(m, "RandomErasing"), field<&RandomErasing::probability>("probability"),
                field<&RandomErasing::scale>("scale"), field<&RandomErasing::ratio>("ratio"),
                field<&RandomErasing::log_ratio>("log_ratio"), field<&RandomErasing::value>("value"));
}

}  // namespace fastload
