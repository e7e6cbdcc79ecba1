// Makes records of files' coefficients for their own sake, and compares those there are with what the files say.
#pragma once

#include <cstdint>
#include <memory>

#include "base/span.h"
#include "base/status.h"
#include "codec/jpeg/coefficient_writer.h"
#include "codec/jpeg/jpeg_decoder.h"
#include "engine/cache/file_record_cache.h"
#include "engine/sample/build_outcome.h"
#include "engine/sample/native_sample_worker.h"
#include "engine/sample/recorded_file.h"
#include "io/file_reader.h"
#include "kernels/kernel_table.h"

namespace fastload {

// The scratch of one thread. Not thread-safe.
class CoefficientBuilder {
  public:
    // `options.cache` has coefficients.
    CoefficientBuilder(const KernelTable& kernels, const NativeWorkerOptions& options);

    // Reads the whole file, unless its record is there, and keeps what was found out.
    Status build(ByteSpan path, BuildOutcome* outcome) noexcept;
    // Keeps nothing.
    Status compare(ByteSpan path, BuildOutcome* outcome) noexcept;

  private:
    Status make(ByteSpan path, ByteSpan* contents, BuildOutcome* outcome) noexcept;
    bool find(ByteSpan path) noexcept;

    const std::shared_ptr<DecodeCache> cache_;
    FileRecordCache& coefficients_;
    const DecodeLimits limits_;
    const std::uint64_t max_file_bytes_;
    JpegDecoder decoder_;
    jpeg::CoefficientWriter writer_;
    FileReader reader_;
    RecordedFile file_;
};

}  // namespace fastload
