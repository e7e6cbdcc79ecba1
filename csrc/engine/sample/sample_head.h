// Single samples for code that goes on with them: read, decoded and transformed into memory of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/image_view.h"
#include "base/span.h"
#include "base/status.h"
#include "codec/jpeg/jpeg_decoder.h"
#include "engine/sample/native_sample_worker.h"
#include "engine/sample/sample_timings.h"
#include "image/random/draw_source.h"
#include "image/plan/transform_executor.h"
#include "image/plan/transform_plan.h"
#include "io/file_reader.h"
#include "kernels/kernel_table.h"

namespace fastload {

// What a plan has made of one image: `size_bytes` bytes in the plan's layout.
struct HeadResult {
    std::unique_ptr<std::uint8_t[]> bytes;
    std::size_t size_bytes = 0;
    ImageSize size;
};

// The scratch and code of one thread, for plans of any kind. Not thread-safe; never throws, never takes the GIL.
class SampleHead {
  public:
    SampleHead(const KernelTable& kernels, const NativeWorkerOptions& options);

    // A status for which is_for_fallback() holds means: let the reference decoder provide the pixels and call
    // run_with_pixels. Whatever the status, `draws` may have moved: rewind them before another try.
    Status run(ByteSpan path, const TransformPlan& plan, DrawSource* draws, HeadResult* result) noexcept;

    // The same from pixels that somebody else decoded.
    Status run_with_pixels(const PackedImageView& rgb, const TransformPlan& plan, DrawSource* draws,
                           HeadResult* result) noexcept;

    // See ResolvedTransform; of what was run last.
    bool keeps_info() const noexcept { return resolved_.keeps_info; }

    // Sums since the last call.
    SampleTimings take_timings() noexcept;

    std::size_t scratch_bytes() const noexcept;

  private:
    Status transform(const StripImageView& pixels, const TransformPlan& plan, HeadResult* result) noexcept;

    const NativeWorkerOptions options_;
    FileReader reader_;
    JpegDecoder decoder_;
    TransformExecutor executor_;
    ResolvedTransform resolved_;
    SampleTimings timings_;
};

}  // namespace fastload
