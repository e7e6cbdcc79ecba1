// Makes indexes of files for their own sake, and compares those there are with what the files say.
#pragma once

#include <cstdint>
#include <memory>

#include "base/aligned_buffer.h"
#include "base/span.h"
#include "base/status.h"
#include "codec/jpeg/entropy_index.h"
#include "codec/jpeg/jpeg_decoder.h"
#include "engine/cache/decode_cache.h"
#include "engine/sample/build_outcome.h"
#include "engine/sample/native_sample_worker.h"
#include "io/file_reader.h"
#include "kernels/kernel_table.h"

namespace fastload {

// The scratch of one thread. Not thread-safe.
class IndexBuilder {
  public:
    // `options.cache` is not null. May throw std::bad_alloc.
    IndexBuilder(const KernelTable& kernels, const NativeWorkerOptions& options);

    // Reads the whole file, and keeps what was found out.
    Status build(ByteSpan path, BuildOutcome* outcome) noexcept;
    // Keeps nothing.
    Status compare(ByteSpan path, BuildOutcome* outcome) noexcept;

  private:
    struct File {
        ContentKey key;
        jpeg::ScanShape shape;
        Region last_pixels;  // behind all others
    };
    Status open(ByteSpan path, File* file, BuildOutcome* outcome) noexcept;
    bool holds_for(const jpeg::EntropyIndex& whole) const noexcept;
    Span<std::uint8_t> buffer() const noexcept { return {buffer_.data(), DecodeCache::kMaxRecordBytes}; }

    const std::shared_ptr<DecodeCache> cache_;
    const std::uint64_t max_file_bytes_;
    JpegDecoder decoder_;
    FileReader reader_;
    AlignedBuffer buffer_;
    jpeg::EntropyIndex index_;
    jpeg::EntropyIndex whole_;
};

}  // namespace fastload
