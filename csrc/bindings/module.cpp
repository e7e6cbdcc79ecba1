// The extension module fastload._core. Only fastload/_native.py imports it; fastload/_core.pyi types it.
#include "bindings/bind_blur.h"
#include "bindings/bind_codec.h"
#include "bindings/bind_device.h"
#include "bindings/bind_draws.h"
#include "bindings/bind_gil.h"
#include "bindings/bind_sample_decoder.h"
#include "bindings/bind_sources.h"
#include "bindings/bind_staging.h"
#include "bindings/bind_steps.h"
#include "bindings/bind_transform.h"
#include "bindings/bindings.h"

PYBIND11_MODULE(_core, module) {
    module.doc() = "The native part of fastload. Private: import fastload instead.";
    fastload::bind_build_info(module);
    fastload::bind_codec(module);
    fastload::bind_device(module);
    fastload::bind_staging(module);
    fastload::bind_draws(module);
    fastload::bind_steps(module);
    fastload::bind_blur(module);
    fastload::bind_transform(module);
    fastload::bind_sources(module);
    fastload::bind_engine(module);
    fastload::bind_sample_decoder(module);
    fastload::bind_gil(module);
}
