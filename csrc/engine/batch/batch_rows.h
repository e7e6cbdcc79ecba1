// Memory of a batch to which its samples are written before the batch is made.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/span.h"
#include "engine/batch/buffer_pool.h"

namespace fastload {

// Rows of one size, one for each sample, each held as long as a token for it exists. The memory stays as long as the
// rows or a token exist. Thread-safe, except for take().
class BatchRows {
    struct State {
        std::shared_ptr<BufferPool::Buffer> buffer;
        std::vector<std::atomic<bool>> is_held;
        std::atomic<std::size_t> num_held{0};
        State(std::shared_ptr<BufferPool::Buffer> memory, std::size_t count)
            : buffer(std::move(memory)), is_held(count) {}
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
    BatchRows(std::shared_ptr<BufferPool::Buffer> buffer, std::size_t count)
        : row_bytes_(buffer->size / count), state_(std::make_shared<State>(std::move(buffer), count)) {}

    std::size_t count() const noexcept { return state_->is_held.size(); }
    Span<std::uint8_t> row(std::size_t row) const noexcept {
        return {state_->buffer->data + row * row_bytes_, row_bytes_};
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
