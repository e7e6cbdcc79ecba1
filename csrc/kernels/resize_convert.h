// A resize and the last write in one.
#pragma once

#include <cstdint>

#include "base/image_view.h"
#include "kernels/convert.h"
#include "kernels/resize.h"

namespace fastload {

// Does what `resize` and then `convert_rows` of its result do, with the scratch memory of that resize. Each row becomes
// elements as soon as it is made. These go past the caches to memory, which takes them while the next row is computed:
// for results that would leave the caches before they are read. Returns false, with nothing written, if this is not
// better than the two calls: vector kernels do it for planes of float32 with a formula whose rows are whole cache
// lines.
using ResizeConvertFunction = bool(const StripImageView& source, const ResizeJob& job, std::uint8_t* scratch,
                                   const ConvertJob& convert, void* destination) noexcept;

ResizeConvertFunction resize_convert_scalar;  // always false
ResizeConvertFunction resize_convert_avx2, resize_convert_avx512;

}  // namespace fastload
