#include "engine/batch/buffer_pool.h"

namespace fastload {
namespace {

struct OwnedBuffer {
    Span<std::uint8_t> bytes;
    Mapping mapping;
};

}  // namespace

SharedBytes BufferPool::allocate(std::size_t size) {
    auto owned = std::make_unique<OwnedBuffer>();
    owned->mapping = take(size);
    if (owned->mapping.data() == nullptr) {
        owned->mapping = Mapping::create(size);
        if (owned->mapping.data() == nullptr) return nullptr;
        const std::lock_guard<std::mutex> lock(mutex_);
        bytes_held_ += owned->mapping.size();
    }
    owned->bytes = {owned->mapping.data(), size};
    OwnedBuffer* raw = owned.release();  // the deleter owns it from here on, even if shared_ptr cannot be made
    const auto return_to_pool = [pool = shared_from_this(), raw](const Span<std::uint8_t>*) noexcept {
        std::unique_ptr<OwnedBuffer> returned(raw);
        // See Note [after fork]: a thread of the parent may hold the pool's mutex.
        if (pool->generation_ == fork_generation()) pool->give_back(std::move(returned->mapping));
    };
    return {&raw->bytes, return_to_pool};
}

Mapping BufferPool::take(std::size_t size) {
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

void BufferPool::give_back(Mapping mapping) noexcept {
    Mapping surplus;  // unmapped after the lock
    const std::lock_guard<std::mutex> lock(mutex_);
    if (free_.size() < max_free_buffers_) {
        free_.push_back(std::move(mapping));
        return;
    }
    // The newest size is the most likely to be asked for again: sizes change when the user changes something.
    if (free_.empty()) {
        surplus = std::move(mapping);
    } else {
        surplus = std::move(free_.front());
        free_.erase(free_.begin());
        free_.push_back(std::move(mapping));
    }
    bytes_held_ -= surplus.size();
}

std::size_t BufferPool::bytes_held() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return bytes_held_;
}

}  // namespace fastload
