// Reads sample files into memory that the reader owns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/aligned_buffer.h"
#include "base/span.h"
#include "base/status.h"
#include "io/file_facts.h"
#include "io/working_directory.h"

namespace fastload {

// The metadata of an open file, from fstat. Returns kOpenFailed, kNotRegularFile or kFileTooLarge.
Status find_open_facts(int descriptor, std::uint64_t max_file_bytes, FileFacts* found) noexcept;

// Reads the first `size` bytes of an open file by pread, independent of its position. EINTR and short reads are
// retried. Returns kReadFailed or kFileShrank.
Status read_open_file(int descriptor, std::uint8_t* destination, std::size_t size) noexcept;

// Must not throw. Returns true if, judging by a file's beginning, the rest is not worth reading.
using HeadJudge = std::function<bool(ByteSpan head)>;

// One per thread. Regular files only, by open, fstat and pread: a mapped file that is truncated meanwhile would end the
// process by SIGBUS, and a FIFO in a class folder would block for ever.
class FileReader {
  public:
    // A file larger than kUnjudgedBytes is judged by its first kHeadBytes. Smaller ones, most images, are read at once:
    // another request would cost more than their memory.
    static constexpr std::size_t kUnjudgedBytes = std::size_t{256} << 10;
    static constexpr std::size_t kHeadBytes = 1024;

    // Reads the file at `path` (bytes without a NUL, as the system takes them; need not be terminated). On success
    // *contents views this reader's memory until the next call. The size is fixed by one fstat after open: a file that
    // grows meanwhile is read up to that size, one that shrinks gives kFileShrank. Returns kOpenFailed,
    // kNotRegularFile, kFileTooLarge (before any byte is read), kReadFailed, kFileShrank or kOutOfMemory, with the
    // system's errno if there is one. If `judge` is given and accepts the first kHeadBytes of a large file, *contents
    // has only these. A relative path is one in `directory`; null: in the thread's current directory.
    Status read(ByteSpan path, std::uint64_t max_file_bytes, ByteSpan* contents,
                const WorkingDirectory* directory = nullptr, const HeadJudge& judge = nullptr) noexcept;

    // The metadata of the file that was read last, from before its first byte was read.
    const FileFacts& facts() const noexcept { return facts_; }

    std::size_t scratch_bytes() const noexcept { return buffer_.capacity(); }
    void release_scratch(ScratchRule rule) noexcept { buffer_.release(rule); }

  private:
    AlignedBuffer buffer_;
    FileFacts facts_;
};

}  // namespace fastload
