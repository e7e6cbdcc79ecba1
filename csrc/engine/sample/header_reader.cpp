#include "engine/sample/header_reader.h"

#include "codec/jpeg/markers.h"

namespace fastload {
namespace {

class Judge final : public HeadJudge {
  public:
    explicit Judge(const NativeWorkerOptions& options) noexcept : options_(options) {}

    // As NativeSampleWorker finds it in the whole file, unless is_cut_short().
    Status find_size(ByteSpan head, ImageSize* size) const noexcept {
        if (!options_.is_native_jpeg_allowed) return Status::unsupported("the installed Pillow has no libjpeg-turbo");
        jpeg::Header header;
        const Status status = jpeg::read_header_segments(head, options_.decode_limits, &header);
        if (status.is_ok()) *size = header.frame.size;
        return status;
    }

    bool is_enough(ByteSpan head) const noexcept override {
        ImageSize size;
        const Status status = find_size(head, &size);
        return status.is_ok() || !jpeg::is_cut_short(status);
    }

  private:
    const NativeWorkerOptions& options_;
};

}  // namespace

Status HeaderReader::read_size(ByteSpan path, ImageSize* size, const WorkingDirectory* directory) noexcept {
    const Judge judge(options_);
    ByteSpan head;
    Status status = reader_.read_head(path, options_.max_file_bytes, judge, &head, directory);
    if (status.is_ok()) status = judge.find_size(head, size);
    reader_.release_scratch(ScratchRule::kLarge);
    return status;
}

}  // namespace fastload
