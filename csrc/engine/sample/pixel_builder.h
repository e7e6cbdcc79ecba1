// Makes records of files' pixels for their own sake, and compares those there are with what the files say.
#pragma once

#include <memory>

#include "base/span.h"
#include "base/status.h"
#include "engine/sample/build_outcome.h"
#include "engine/sample/loaded_pixels.h"
#include "engine/sample/native_sample_worker.h"
#include "engine/sample/recorded_file.h"
#include "engine/sample/sample_file.h"
#include "engine/sample/sample_task.h"
#include "kernels/kernel_table.h"

namespace fastload {

// The scratch of one thread. Not thread-safe.
class PixelBuilder {
  public:
    // `options.cache` has pixels. May throw std::bad_alloc.
    PixelBuilder(const KernelTable& kernels, const NativeWorkerOptions& options,
                 std::shared_ptr<const FirstSteps> first_steps);

    // Reads and decodes the file, unless its record is there, and keeps what was made of it.
    Status build(ByteSpan path, BuildOutcome* outcome) noexcept;
    // Keeps nothing.
    Status compare(ByteSpan path, BuildOutcome* outcome) noexcept;

  private:
    Status decode(LoadedPixels* pixels, BuildOutcome* outcome) noexcept;

    const std::shared_ptr<DecodeCache> cache_;
    FileRecordCache& pixels_;
    const DecodeLimits limits_;
    NativeSampleWorker worker_;
    SampleSource source_;  // without views
    SampleFile file_;
    SampleReport report_;
    RecordedFile recorded_;
    SampleTimings timings_;
};

}  // namespace fastload
