// The streams of one iteration, taken in turn.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/span.h"
#include "engine/stream.h"

namespace fastload {

// One stream; or with torch's random numbers one for each worker that torch would have: batch k belongs to stream
// k mod N, as in torch. Not thread-safe, except where a stream is: one thread at a time submits, takes or restarts.
class StreamGroup {
  public:
    // Opens a stream for each source, at least one.
    StreamGroup(std::shared_ptr<EngineCore> core, std::vector<SampleSource> sources);

    // Queues the next batch: Stream::submit.
    void submit(Span<const std::int64_t> indices, Span<std::uint8_t* const> images, std::shared_ptr<void> memory,
                std::shared_ptr<BatchCopy> copy = nullptr);

    // The stream of the batch whose turn it is.
    const std::shared_ptr<Stream>& current() const noexcept { return streams_[num_taken_ % streams_.size()]; }

    // Takes the batch whose turn it is after current()->wait() returned kReady: Stream::take_ready. Null where another
    // thread was faster.
    std::shared_ptr<BatchSlot> take_ready(std::shared_ptr<void>* memory);

    // Replaces `stream`, one of these, by a new one that draws from `draws` on, and returns that. Batches in flight are
    // dropped: submit them to the new one, in order. Null where `stream` is none of these any more, or is cancelled:
    // then it stays, to say what was lost.
    std::shared_ptr<Stream> restart(const Stream& stream, const TorchDraws& draws);

    // The next batch belongs to the first stream again. Nothing may be in flight.
    void begin_epoch() noexcept { num_submitted_ = num_taken_ = 0; }

    void cancel() noexcept;

    // Any of them: what they share is the same.
    Stream& front() const noexcept { return *streams_.front(); }
    std::size_t batches_in_flight() const;
    std::size_t batches_ready() const;

    // The owners of the memory of the first `count` batches in flight, in the order in which they are taken.
    std::vector<std::shared_ptr<void>> memory_in_flight(std::size_t count) const;

  private:
    std::vector<std::shared_ptr<Stream>> streams_;
    std::size_t num_submitted_ = 0;
    std::size_t num_taken_ = 0;
};

}  // namespace fastload
