#include "engine/batch/buffer_pool.h"

#include <mutex>
#include <utility>
#include <vector>

#include "base/mapping.h"
#include "engine/fork_guard.h"

namespace fastload {
class BufferPool::Shared {
  public:
    explicit Shared(std::size_t max_free_buffers) : max_free_buffers_(max_free_buffers) {
        free_.reserve(max_free_buffers);
    }

    Mapping take(std::size_t size) {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (Mapping& candidate : free_) {
            // At most half empty: a small last batch may use a large buffer's memory only if it is not much smaller.
            if (candidate.size() >= size && candidate.size() / 2 <= size) {
                Mapping taken = std::move(candidate);
                candidate = std::move(free_.back());
                free_.pop_back();
                return taken;
            }
        }
        return {};
    }

    void give_back(Mapping mapping) noexcept {
        Mapping surplus;  // unmapped after the lock
        const std::lock_guard<std::mutex> lock(mutex_);
        if (free_.size() == max_free_buffers_) {
            // The newest size is the most likely to be asked for again: sizes change when the user changes something.
            if (free_.empty()) {
                surplus = std::move(mapping);
            } else {
                surplus = std::move(free_.front());
                free_.erase(free_.begin());
                free_.push_back(std::move(mapping));
            }
            bytes_held_ -= surplus.size();
            return;
        }
        free_.push_back(std::move(mapping));
    }

    void count(std::size_t bytes) {
        const std::lock_guard<std::mutex> lock(mutex_);
        bytes_held_ += bytes;
    }

    std::size_t bytes_held() const {
        const std::lock_guard<std::mutex> lock(mutex_);
        return bytes_held_;
    }

    std::uint32_t generation() const noexcept { return generation_; }

  private:
    const std::uint32_t generation_ = fork_generation();
    const std::size_t max_free_buffers_;
    mutable std::mutex mutex_;
    std::vector<Mapping> free_;
    std::size_t bytes_held_ = 0;
};

namespace {

struct OwnedBuffer {
    BufferPool::Buffer buffer;
    Mapping mapping;
};

}  // namespace

BufferPool::BufferPool(std::size_t max_free_buffers) : shared_(std::make_shared<Shared>(max_free_buffers)) {}

std::shared_ptr<BufferPool::Buffer> BufferPool::allocate(std::size_t size) {
    auto owned = std::make_unique<OwnedBuffer>();
    owned->mapping = shared_->take(size);
    if (owned->mapping.data() == nullptr) {
        owned->mapping = Mapping::create(size);
        if (owned->mapping.data() == nullptr) return nullptr;
        shared_->count(owned->mapping.size());
    }
    owned->buffer = {owned->mapping.data(), size};
    OwnedBuffer* raw = owned.release();  // the deleter owns it from here on, even if shared_ptr cannot be made
    const auto return_to_pool = [shared = shared_, raw](Buffer*) noexcept {
        std::unique_ptr<OwnedBuffer> returned(raw);
        // See Note [after fork]: a thread of the parent may hold the pool's mutex.
        if (shared->generation() == fork_generation()) shared->give_back(std::move(returned->mapping));
    };
    return std::shared_ptr<Buffer>(&raw->buffer, return_to_pool);
}

std::size_t BufferPool::bytes_held() const { return shared_->bytes_held(); }

}  // namespace fastload
