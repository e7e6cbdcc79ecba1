#include "processes/message_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace fastload {
namespace {

constexpr std::size_t kHeaderBytes = sizeof(std::uint64_t);
// Messages are short; of a longer one the size is known with its first bytes.
constexpr std::size_t kReceiveBytes = 4096;
// Memory that a large message has left is freed.
constexpr std::size_t kKeptBytes = std::size_t{1} << 20;

bool would_block(int error) noexcept { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

MessageSocket::MessageSocket(int descriptor) : descriptor_(descriptor) {
    const int flags = ::fcntl(descriptor, F_GETFL);
    if (flags < 0 || ::fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) != 0)
        throw std::system_error(errno, std::generic_category(), "fcntl");
}

void MessageSocket::put(ByteSpan message) {
    const std::uint64_t size = message.size();
    out_.reserve(out_.size() + kHeaderBytes + message.size());
    const auto* const header = reinterpret_cast<const std::uint8_t*>(&size);
    out_.insert(out_.end(), header, header + kHeaderBytes);
    out_.insert(out_.end(), message.begin(), message.end());
    flush();
}

void MessageSocket::flush() noexcept {
    while (has_unsent() && !has_ended_) {
        const ssize_t sent = ::send(descriptor_, out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
        if (sent >= 0) {
            sent_ += static_cast<std::size_t>(sent);
        } else if (errno != EINTR) {
            if (would_block(errno)) return;
            break;  // the other end is gone; what it has sent before can still be received
        }
    }
    out_.clear();
    sent_ = 0;
    if (out_.capacity() > kKeptBytes) out_ = {};
}

void MessageSocket::receive() {
    while (!has_ended_) {
        if (taken_ == in_size_) taken_ = in_size_ = 0;
        if (in_.size() < in_size_ + kReceiveBytes) {
            std::memmove(in_.data(), in_.data() + taken_, num_received());
            in_size_ -= taken_;
            taken_ = 0;
            std::size_t wanted = in_size_ + kReceiveBytes;
            if (num_received() >= kHeaderBytes)
                wanted = std::max<std::size_t>(wanted, size_of_first() + kHeaderBytes + kReceiveBytes);
            if (in_.size() < wanted) in_.resize(wanted);
        }
        const ssize_t came = ::recv(descriptor_, in_.data() + in_size_, in_.size() - in_size_, 0);
        if (came > 0) {
            in_size_ += static_cast<std::size_t>(came);
        } else if (came == 0) {
            has_ended_ = true;
        } else if (errno != EINTR) {
            if (would_block(errno)) return;
            has_ended_ = true;
        }
    }
}

std::uint64_t MessageSocket::size_of_first() const noexcept {
    std::uint64_t size = 0;
    std::memcpy(&size, in_.data() + taken_, kHeaderBytes);
    return size;
}

bool MessageSocket::has_message() const noexcept {
    return num_received() >= kHeaderBytes && num_received() - kHeaderBytes >= size_of_first();
}

ByteSpan MessageSocket::first() const noexcept {
    return {in_.data() + taken_ + kHeaderBytes, static_cast<std::size_t>(size_of_first())};
}

void MessageSocket::drop_first() noexcept {
    taken_ += kHeaderBytes + static_cast<std::size_t>(size_of_first());
    ++num_dropped_;
    if (taken_ != in_size_) return;
    taken_ = in_size_ = 0;
    if (in_.capacity() > kKeptBytes) in_ = {};
}

void MessageSocket::close() noexcept {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
    has_ended_ = true;
}

void wait_for_any(Span<MessageSocket* const> sockets, int timeout_ms) {
    std::vector<pollfd> polled;
    polled.reserve(sockets.size());
    for (const MessageSocket* socket : sockets) {
        const short events = static_cast<short>(POLLIN | (socket->has_unsent() ? POLLOUT : 0));
        if (!socket->has_ended()) polled.push_back({socket->descriptor(), events, 0});
    }
    ::poll(polled.data(), polled.size(), timeout_ms);
}

}  // namespace fastload
