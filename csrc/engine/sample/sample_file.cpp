#include "engine/sample/sample_file.h"

#include <new>

namespace fastload {

void SampleFile::read(ByteSpan path, std::uint64_t max_file_bytes, const WorkingDirectory* directory,
                      const HeadJudge& judge) noexcept {
    status_ = reader_.read(path, max_file_bytes, &contents_, directory, judge);
    is_read_ = true;
}

RecordedFile* SampleFile::recorded() noexcept {
    if (recorded_ == nullptr) recorded_.reset(new (std::nothrow) RecordedFile);
    return recorded_.get();
}

void SampleFile::take_record() noexcept {
    status_ = Status::ok();
    is_read_ = true;
}

std::size_t SampleFile::held_bytes() const noexcept {
    return reader_.scratch_bytes() + (recorded_ == nullptr ? 0 : recorded_->held_bytes());
}

void SampleFile::release_scratch(ScratchRule rule) noexcept {
    reader_.release_scratch(rule);
    if (recorded_ != nullptr) recorded_->release_scratch(rule);
}

void SampleFile::view(ByteSpan contents) noexcept {
    contents_ = contents;
    status_ = Status::ok();
    is_read_ = true;
}

void SampleFile::forget() noexcept {
    if (is_counted_) waiting_bytes_->fetch_sub(counted_bytes_, std::memory_order_relaxed);
    is_counted_ = false;
    is_read_ = false;
    contents_ = {};
    if (recorded_ != nullptr) recorded_->forget();
}

bool SampleFile::may_wait(std::size_t limit) noexcept {
    if (is_counted_) return true;
    if (waiting_bytes_->load(std::memory_order_relaxed) >= limit) return false;
    counted_bytes_ = contents_.size() + (recorded_ == nullptr ? 0 : recorded_->waiting_bytes());
    waiting_bytes_->fetch_add(counted_bytes_, std::memory_order_relaxed);
    is_counted_ = true;
    return true;
}

SampleFiles::SampleFiles(std::size_t num_threads)
    : num_threads_(num_threads), waiting_bytes_(std::make_shared<std::atomic<std::size_t>>(0)) {
    constexpr std::size_t kFilesBesideThreads = 256;
    spare_.reserve(num_threads + kFilesBesideThreads);
}

std::unique_ptr<SampleFile> SampleFiles::take() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!spare_.empty()) {
            std::unique_ptr<SampleFile> file = std::move(spare_.back());
            spare_.pop_back();
            spare_bytes_ -= file->held_bytes();
            return file;
        }
    }
    return std::make_unique<SampleFile>(waiting_bytes_);
}

void SampleFiles::give_back(std::unique_ptr<SampleFile> file) noexcept {
    if (file == nullptr) return;
    file->forget();
    file->release_scratch(ScratchRule::kLarge);
    const std::size_t bytes = file->held_bytes();
    const std::lock_guard<std::mutex> lock(mutex_);
    if (spare_.size() == spare_.capacity()) return;
    if (spare_.size() >= num_threads_ && spare_bytes_ + bytes > kMaxSpareBytes) return;
    spare_bytes_ += bytes;
    spare_.push_back(std::move(file));
}

std::size_t SampleFiles::spare_bytes() const noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    return spare_bytes_;
}

}  // namespace fastload
