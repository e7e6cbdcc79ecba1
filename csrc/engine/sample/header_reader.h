// The sizes of images from the headers of their files.
#pragma once

#include "base/image_view.h"
#include "base/span.h"
#include "base/status.h"
#include "engine/sample/native_sample_worker.h"
#include "io/file_reader.h"
#include "io/working_directory.h"

namespace fastload {

// Reads no more of a file than its header takes, and decodes nothing. One thread at a time; owns scratch memory.
class HeaderReader {
  public:
    explicit HeaderReader(const NativeWorkerOptions& options) noexcept : options_(options) {}

    // Finds the size with which a worker of the same options makes the random choices of the file at `path`. A status
    // for which is_for_fallback() holds means: the reference decoder says it. Any other is the sample's own, for which
    // no choices are made. A file that is damaged behind its header has a size. A relative path is one in `directory`;
    // null: in the thread's current one.
    Status read_size(ByteSpan path, ImageSize* size, const WorkingDirectory* directory = nullptr) noexcept;

  private:
    const NativeWorkerOptions options_;
    FileReader reader_;
};

}  // namespace fastload
