// The real SampleWorker: read, decode, transform, write.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/decoder.h"
#include "codec/jpeg/jpeg_decoder.h"
#include "engine/sample/sample_task.h"
#include "image/plan/transform_executor.h"
#include "io/sample_index.h"
#include "kernels/kernel_table.h"

namespace fastload {

struct NativeWorkerOptions {
    DecodeLimits decode_limits;
    std::uint64_t max_file_bytes = std::uint64_t{1} << 30;
    // False where the installed Pillow does not decode with libjpeg-turbo: then every file is left to Pillow.
    bool is_native_jpeg_allowed = true;
};

class NativeSampleWorker final : public SampleWorker {
  public:
    NativeSampleWorker(const KernelTable& kernels, const NativeWorkerOptions& options);

    void read(const SampleTask& task, SampleTimings* timings) noexcept override;
    Status run(const SampleTask& task, SampleTimings* timings) noexcept override;
    Status run_with_pixels(const SampleTask& task, const PackedImageView& rgb,
                           SampleTimings* timings) noexcept override;
    std::size_t scratch_bytes() const noexcept override;

  private:
    // Makes every view of `pixels`, which show `region` of the image.
    Status transform(const SampleTask& task, const StripImageView& pixels, const Region& region,
                     SampleTimings* timings) noexcept;

    const NativeWorkerOptions options_;
    PathBuffer path_buffer_;
    JpegDecoder decoder_;
    TransformExecutor executor_;
};

}  // namespace fastload
