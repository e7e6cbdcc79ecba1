// One end of the connection between a loader's process and one of its worker processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/span.h"

namespace fastload {

// Messages over a stream socket, each after its size in 8 bytes. Neither end ever blocks in a write with messages
// unread, because nothing here blocks: a message that does not fit the socket's buffer waits in `out_`, and the rest of
// it goes with the next flush(). Not thread-safe.
class MessageSocket {
  public:
    // Takes ownership of the descriptor and makes it non-blocking. Throws std::system_error.
    explicit MessageSocket(int descriptor);
    ~MessageSocket() { close(); }
    MessageSocket(const MessageSocket&) = delete;
    MessageSocket& operator=(const MessageSocket&) = delete;

    // Appends a message to what is to be sent, and sends as much as the socket takes. Throws std::bad_alloc, and then
    // has appended nothing.
    void put(ByteSpan message);
    // Sends as much as the socket takes. If the other end is gone, everything is dropped.
    void flush() noexcept;
    // Receives all that has come. Throws std::bad_alloc; nothing that has come is lost.
    void receive();

    bool has_message() const noexcept;
    // The oldest message that has come as a whole; valid until the next call. Call only if there is one.
    ByteSpan first() const noexcept;
    void drop_first() noexcept;
    // Number of messages that were dropped, which is the number of the oldest one that was not.
    std::uint64_t num_dropped() const noexcept { return num_dropped_; }

    // -1: closed.
    int descriptor() const noexcept { return descriptor_; }
    bool has_unsent() const noexcept { return sent_ < out_.size(); }
    // Whether the other end was closed, or this one.
    bool has_ended() const noexcept { return has_ended_; }
    void close() noexcept;

  private:
    std::size_t num_received() const noexcept { return in_size_ - taken_; }
    std::uint64_t size_of_first() const noexcept;

    int descriptor_;
    bool has_ended_ = false;
    std::vector<std::uint8_t> out_;
    std::size_t sent_ = 0;  // bytes of `out_` that the socket has taken
    std::vector<std::uint8_t> in_;
    std::size_t in_size_ = 0;  // bytes of `in_` that have come
    std::size_t taken_ = 0;    // bytes of `in_` whose messages were dropped
    std::uint64_t num_dropped_ = 0;
};

// Waits until one of the sockets has something to receive, can send what is left, or has ended; at most for
// `timeout_ms`. Returns at once, like poll(), if a signal comes.
void wait_for_any(Span<MessageSocket* const> sockets, int timeout_ms);

}  // namespace fastload
