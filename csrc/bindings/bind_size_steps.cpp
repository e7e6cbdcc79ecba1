#include "bindings/bind_fields.h"
#include "bindings/bind_steps.h"
#include "bindings/step_casters.h"
#include "image/steps/center_crop.h"
#include "image/steps/pad.h"
#include "image/steps/random_crop.h"
#include "image/steps/random_resized_crop.h"
#include "image/steps/resize.h"
#include "image/steps/resize_shorter_side.h"

namespace fastload {

void bind_size_steps(pybind11::module_& m) {
    bind_fields(StepClass<Resize>(m, "Resize"), field<&Resize::height>("height"), field<&Resize::width>("width"),
                field<&Resize::interpolation>("interpolation"));
    bind_fields(StepClass<ResizeShorterSide>(m, "ResizeShorterSide"), field<&ResizeShorterSide::size>("size"),
                field<&ResizeShorterSide::max_size>("max_size"),
                field<&ResizeShorterSide::interpolation>("interpolation"));
    bind_fields(StepClass<CenterCrop>(m, "CenterCrop"), field<&CenterCrop::height>("height"),
                field<&CenterCrop::width>("width"));
    bind_fields(StepClass<RandomResizedCrop>(m, "RandomResizedCrop"), field<&RandomResizedCrop::height>("height"),
                field<&RandomResizedCrop::width>("width"), field<&RandomResizedCrop::scale>("scale"),
                field<&RandomResizedCrop::ratio>("ratio"), field<&RandomResizedCrop::log_ratio>("log_ratio"),
                field<&RandomResizedCrop::interpolation>("interpolation"));
    bind_fields(StepClass<Pad>(m, "Pad"), field<&Pad::left>("left"), field<&Pad::top>("top"),
                field<&Pad::right>("right"), field<&Pad::bottom>("bottom"), field<&Pad::mode>("padding_mode"),
                field<&Pad::fill>("fill"));
    bind_fields(StepClass<RandomCrop>(m, "RandomCrop"), field<&RandomCrop::height>("height"),
                field<&RandomCrop::width>("width"), field<&RandomCrop::pad_if_needed>("pad_if_needed"),
                field<&RandomCrop::padding_mode>("padding_mode"), field<&RandomCrop::fill>("fill"),
                field<&RandomCrop::family>("family"));
}

}  // namespace fastload
