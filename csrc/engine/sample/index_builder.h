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
#include "engine/sample/native_sample_worker.h"
#include "io/file_reader.h"
#include "kernels/kernel_table.h"

namespace fastload {

// What became of a file.
enum class IndexOutcome : std::uint8_t {
    kKept,       // it has a new record
    kKnown,      // its record says as much as a new one would, or all that it says is right
    kNotKept,    // there is no room
    kNone,       // files like it have no index, or it is damaged
    kAbsent,     // it has no record
    kDifferent,  // its record says something else than the file
    kUnread      // it cannot be read
};

// The scratch of one thread. Not thread-safe.
class IndexBuilder {
  public:
    // `options.cache` is not null. May throw std::bad_alloc.
    IndexBuilder(const KernelTable& kernels, const NativeWorkerOptions& options);

    // Reads the whole file, and keeps what was found out.
    Status build(ByteSpan path, IndexOutcome* outcome) noexcept;
    // Keeps nothing.
    Status compare(ByteSpan path, IndexOutcome* outcome) noexcept;

  private:
    struct File {
        ContentKey key;
        jpeg::ScanShape shape;
        Region last_pixels;  // behind all others
    };
    Status open(ByteSpan path, File* file, IndexOutcome* outcome) noexcept;
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
