// Memory of host batches, reused after the user has dropped it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace fastload {

// Thread-safe. A fresh batch costs a page fault every 4 KiB (about 250 us an image); a reused one costs none. A buffer
// belongs to the holders of its shared_ptr, and is reused only after the last of them is gone. Buffers may outlive the
// pool.
class BufferPool {
  public:
    // Keeps at most `max_free_buffers` unused buffers; further ones go back to the system.
    explicit BufferPool(std::size_t max_free_buffers);

    struct Buffer {
        std::uint8_t* data;
        std::size_t size;  // the requested size; the memory may be larger
    };

    // Uninitialised memory of `size` bytes (at least 1), aligned to 64 bytes or better. nullptr if there is none.
    std::shared_ptr<Buffer> allocate(std::size_t size);

    // Bytes of all buffers, in use or free.
    std::size_t bytes_held() const;

  private:
    class Shared;
    std::shared_ptr<Shared> shared_;
};

}  // namespace fastload
