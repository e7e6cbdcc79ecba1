// The last write to planes of float32 whose entries a formula gives: code that its vector forms share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/convert.h"
#include "kernels/convert_frame.h"

namespace fastload {

inline bool are_float_planes(const ConvertJob& job) noexcept {
    return job.normalizations != nullptr && !job.is_channels_last;
}

// True if rows of `width` pixels are whole cache lines in such planes. To write only a part of a line past the caches
// costs more than whole lines save.
inline bool are_rows_whole_lines(const ConvertJob& job, std::int32_t width, const void* destination) noexcept {
    constexpr std::uintptr_t kLineBytes = 64;
    constexpr std::int32_t kLineFloats = 16;
    return job.width % kLineFloats == 0 && job.left % kLineFloats == 0 && width % kLineFloats == 0 &&
           reinterpret_cast<std::uintptr_t>(destination) % kLineBytes == 0;
}

// A ChannelWriter(normalization, is_mirrored) converts rows of one channel. write<false>(pixels, count, output) writes
// them through the caches; write<true> writes whole cache lines past the caches, and needs a fence at the end.
template <typename ChannelWriter>
class FloatPlanes {
  public:
    FloatPlanes(const ConvertJob& job, void* destination) noexcept
        : channels_{ChannelWriter(job.normalizations[0], job.is_mirrored),
                    ChannelWriter(job.normalizations[1], job.is_mirrored),
                    ChannelWriter(job.normalizations[2], job.is_mirrored)},
          layout_(job),
          destination_(static_cast<float*>(destination)) {}

    // Contract: see Writer in convert_frame.h.
    void write_run(const std::uint8_t* const pixels[3], std::size_t count, std::size_t x,
                   std::size_t y) const noexcept {
        for (int channel = 0; channel < 3; ++channel) write<false>(channel, pixels[channel], count, x, y);
    }

    // Writes `count` pixels to columns [x, x + count) of row y.
    template <bool kIsStreamed>
    void write(int channel, const std::uint8_t* pixels, std::size_t count, std::size_t x,
               std::size_t y) const noexcept {
        channels_[channel].template write<kIsStreamed>(pixels, count, destination_ + layout_.element(channel, x, y));
    }

  private:
    ChannelWriter channels_[3];
    ElementLayout layout_;
    float* destination_;
};

}  // namespace fastload
