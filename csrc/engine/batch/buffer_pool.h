// Memory of host batches, reused after the user has dropped it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/mapping.h"
#include "base/span.h"
#include "engine/fork_guard.h"

namespace fastload {

// Thread-safe. A fresh batch costs a page fault every 4 KiB (about 250 us an image); a reused one costs none. A buffer
// belongs to the holders of its pointer, and is reused only after the last of them is gone. Buffers keep the pool.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
  public:
    // Keeps at most `max_free_buffers` unused buffers; further ones go back to the system. Make it in a shared_ptr.
    explicit BufferPool(std::size_t max_free_buffers) : max_free_buffers_(max_free_buffers) {
        free_.reserve(max_free_buffers);
    }

    // Uninitialised memory of `size` bytes (at least 1), aligned to 64 bytes or better. nullptr if there is none.
    SharedBytes allocate(std::size_t size);

    // Bytes of all buffers, in use or free.
    std::size_t bytes_held() const;

  private:
    Mapping take(std::size_t size);
    void give_back(Mapping mapping) noexcept;

    const std::uint32_t generation_ = fork_generation();
    const std::size_t max_free_buffers_;
    mutable std::mutex mutex_;
    std::vector<Mapping> free_;
    std::size_t bytes_held_ = 0;
};

// Memory of a batch to which its samples are written before the batch is made: rows of one size, one for each sample,
// each held as long as a token for it exists. The memory stays as long as the rows or a token exist. Thread-safe,
// except for take().
class BatchRows {
    struct State {
        SharedBytes buffer;
        std::vector<std::atomic<bool>> is_held;
        std::atomic<std::size_t> num_held{0};
        State(SharedBytes memory, std::size_t count) : buffer(std::move(memory)), is_held(count) {}
    };

  public:
    class Token {
      public:
        Token(std::shared_ptr<State> state, std::size_t row) : state_(std::move(state)), row_(row) {
            state_->is_held[row_].store(true);
            ++state_->num_held;
        }
        Token(const Token&) = delete;
        ~Token() {
            state_->is_held[row_].store(false);
            --state_->num_held;
        }

      private:
        std::shared_ptr<State> state_;
        std::size_t row_;
    };

    // `count` rows fill the buffer. May throw std::bad_alloc.
    BatchRows(SharedBytes buffer, std::size_t count)
        : row_bytes_(buffer->size() / count), state_(std::make_shared<State>(std::move(buffer), count)) {}

    std::size_t count() const noexcept { return state_->is_held.size(); }
    Span<std::uint8_t> row(std::size_t row) const noexcept {
        return state_->buffer->subspan(row * row_bytes_, row_bytes_);
    }
    bool is_held(std::size_t row) const noexcept { return state_->is_held[row].load(); }
    std::size_t num_held() const noexcept { return state_->num_held.load(); }
    // Only for a row that is not held.
    std::unique_ptr<Token> take(std::size_t row) const { return std::make_unique<Token>(state_, row); }

  private:
    std::size_t row_bytes_;
    std::shared_ptr<State> state_;
};

}  // namespace fastload
