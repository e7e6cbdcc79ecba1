#include "engine/stream_group.h"

#include <utility>

namespace fastload {

StreamGroup::StreamGroup(std::shared_ptr<EngineCore> core, std::vector<SampleSource> sources) {
    streams_.reserve(sources.size());
    for (SampleSource& source : sources) streams_.push_back(Stream::open(core, std::move(source)));
}

void StreamGroup::submit(Span<const std::int64_t> indices, Span<std::uint8_t* const> images,
                         std::shared_ptr<void> memory, std::shared_ptr<BatchCopy> copy) {
    streams_[num_submitted_ % streams_.size()]->submit(indices, images, std::move(memory), std::move(copy));
    ++num_submitted_;
}

std::shared_ptr<BatchSlot> StreamGroup::take_ready(std::shared_ptr<void>* memory) {
    std::shared_ptr<BatchSlot> slot = current()->take_ready(memory);
    if (slot != nullptr) ++num_taken_;
    return slot;
}

std::shared_ptr<Stream> StreamGroup::restart(const Stream& stream, const TorchDraws& draws) {
    for (std::shared_ptr<Stream>& candidate : streams_) {
        if (candidate.get() != &stream || stream.is_cancelled()) continue;
        SampleSource source = stream.source();
        source.torch_draws = draws;
        std::shared_ptr<Stream> fresh = Stream::open(stream.shared_core(), std::move(source));
        candidate->cancel();
        candidate = fresh;
        return fresh;
    }
    return nullptr;
}

void StreamGroup::cancel() noexcept {
    for (const std::shared_ptr<Stream>& stream : streams_) stream->cancel();
}

std::size_t StreamGroup::batches_in_flight() const {
    std::size_t count = 0;
    for (const std::shared_ptr<Stream>& stream : streams_) count += stream->batches_in_flight();
    return count;
}

std::vector<std::shared_ptr<void>> StreamGroup::memory_in_flight(std::size_t count) const {
    std::vector<std::vector<std::shared_ptr<void>>> by_stream;
    for (const std::shared_ptr<Stream>& stream : streams_) by_stream.push_back(stream->memory_in_flight());
    std::vector<std::shared_ptr<void>> memory;
    for (std::size_t i = 0; i < count; ++i) {
        const std::vector<std::shared_ptr<void>>& of_stream = by_stream[(num_taken_ + i) % streams_.size()];
        const std::size_t position = i / streams_.size();
        if (position >= of_stream.size()) break;
        memory.push_back(of_stream[position]);
    }
    return memory;
}

std::size_t StreamGroup::batches_ready() const {
    std::size_t count = 0;
    for (const std::shared_ptr<Stream>& stream : streams_) count += stream->batches_ready();
    return count;
}

}  // namespace fastload
