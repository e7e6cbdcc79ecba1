#include "bindings/bind_fields.h"
#include "bindings/bind_steps.h"
#include "bindings/step_casters.h"
#include "image/steps/affine.h"
#include "image/steps/hue.h"
#include "image/steps/point_ops.h"
#include "image/steps/saturation.h"
#include "image/steps/sharpness.h"
#include "image/steps/transpositions.h"

namespace fastload {

void bind_pixel_ops(pybind11::module_& m) {
    bind_fields(OpClass<Identity>(m, "Identity"));
    bind_fields(OpClass<Brightness>(m, "Brightness"), field<&Brightness::factor>("factor"));
    bind_fields(OpClass<Contrast>(m, "Contrast"), field<&Contrast::factor>("factor"));
    bind_fields(OpClass<Saturation>(m, "Saturation"), field<&Saturation::factor>("factor"));
    bind_fields(OpClass<Sharpness>(m, "Sharpness"), field<&Sharpness::factor>("factor"));
    bind_fields(OpClass<Hue>(m, "Hue"), field<&Hue::factor>("factor"));
    bind_fields(OpClass<Posterize>(m, "Posterize"), field<&Posterize::bits>("bits"));
    bind_fields(OpClass<Solarize>(m, "Solarize"), field<&Solarize::threshold>("threshold"));
    bind_fields(OpClass<Autocontrast>(m, "Autocontrast"));
    bind_fields(OpClass<Equalize>(m, "Equalize"));
    bind_fields(OpClass<Invert>(m, "Invert"));
    bind_fields(OpClass<Grayscale>(m, "Grayscale"));
    bind_fields(OpClass<Affine>(m, "Affine"), field<&Affine::matrix>("matrix"), field<&Affine::fill>("fill"));
    bind_fields(OpClass<Rotate90>(m, "Rotate90"));
    bind_fields(OpClass<Rotate180>(m, "Rotate180"));
    bind_fields(OpClass<Rotate270>(m, "Rotate270"));
}

}  // namespace fastload
