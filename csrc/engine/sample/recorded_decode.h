// Decodes images by records of their coefficients, and compares pixels by records with those by files.
#pragma once

#include <cstddef>

#include "base/aligned_buffer.h"
#include "base/image_view.h"
#include "base/span.h"
#include "base/status.h"
#include "codec/jpeg/jpeg_decoder.h"
#include "engine/cache/file_record_cache.h"
#include "engine/sample/recorded_file.h"
#include "engine/sample/sample_task.h"
#include "engine/sample/sample_timings.h"
#include "kernels/kernel_table.h"

namespace fastload {

// The scratch of one thread. Not thread-safe.
class RecordedDecode {
  public:
    explicit RecordedDecode(const KernelTable& kernels) noexcept : kernels_(kernels) {}

    // Decodes a region by the file's open record. False: the record does not hold, and is not open any more.
    bool decode(const FileRecordCache& cache, RecordedFile* file, const Region& region, JpegDecoder* decoder,
                StripImageView* rgb, SampleTimings* timings) noexcept;

    // Remembers pixels, for equals(). False without memory.
    bool remember(const LoadedPixels& pixels) noexcept;
    bool equals(const LoadedPixels& pixels) noexcept;

    std::size_t scratch_bytes() const noexcept;
    void release_scratch(ScratchRule rule) noexcept;

  private:
    bool pack(const LoadedPixels& pixels, AlignedBuffer* packed) const noexcept;

    const KernelTable& kernels_;
    AlignedBuffer remembered_;
    AlignedBuffer compared_;
    std::size_t remembered_bytes_ = 0;
};

}  // namespace fastload
