// Decodes images by records of their coefficients, and makes such records.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/image_view.h"
#include "base/span.h"
#include "base/status.h"
#include "codec/decoder.h"
#include "codec/jpeg/coefficient_writer.h"
#include "codec/jpeg/jpeg_decoder.h"
#include "codec/jpeg/record_reader.h"
#include "engine/cache/file_record_cache.h"
#include "engine/sample/loaded_pixels.h"
#include "engine/sample/recorded_file.h"
#include "engine/sample/sample_timings.h"
#include "kernels/kernel_table.h"

namespace fastload {

// The scratch of one thread. Not thread-safe.
class RecordedDecode {
  public:
    RecordedDecode(const KernelTable& kernels, const DecodeLimits& limits) noexcept
        : kernels_(kernels), limits_(limits), writer_(kernels) {}

    // Decodes a region by the file's open record. False: the record does not hold, and is not open any more.
    bool decode(const FileRecordCache& cache, RecordedFile* file, const Region& region, JpegDecoder* decoder,
                StripImageView* rgb, SampleTimings* timings) noexcept;

    // Makes and keeps the record of a file, of which the decoder has accepted the header, and decodes a region by it.
    // False: it has no record, and is to be decoded plainly.
    bool make(FileRecordCache* cache, const RecordedFile& file, ByteSpan contents, const Region& region,
              JpegDecoder* decoder, StripImageView* rgb, SampleTimings* timings) noexcept;

    // Remembers pixels, for equals(). False without memory.
    bool remember(const LoadedPixels& pixels) noexcept;
    bool equals(const LoadedPixels& pixels) noexcept;

    std::size_t scratch_bytes() const noexcept;
    void release_scratch(ScratchRule rule) noexcept;

  private:
    bool pack(const LoadedPixels& pixels, AlignedBuffer* packed) const noexcept;

    const KernelTable& kernels_;
    const DecodeLimits limits_;
    jpeg::CoefficientWriter writer_;
    jpeg::RecordReader made_;
    AlignedBuffer remembered_;
    AlignedBuffer compared_;
    std::size_t remembered_bytes_ = 0;
};

}  // namespace fastload
