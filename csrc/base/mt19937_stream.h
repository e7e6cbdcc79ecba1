// torch's CPU generator: the same words from the same seed, without torch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/span.h"

namespace fastload {

// MT19937 (Matsumoto, Nishimura: "Mersenne Twister", TOMACS 8(1), 1998) seeded and stored as at::CPUGeneratorImpl does.
// A value of 2.5 KB: copy it to keep a state.
class Mt19937Stream {
  public:
    // Bytes of torch.Generator.get_state() of a CPU generator.
    static constexpr std::size_t kTorchStateBytes = 5056;

    // As torch.manual_seed(seed): the low 32 bits count.
    explicit Mt19937Stream(std::uint64_t seed = 0) noexcept;

    std::uint32_t next_uint32() noexcept;

    // Goes on from where a generator of torch is; false, and no change, where `state` is not the state of one.
    bool load_torch_state(ByteSpan state) noexcept;

    // Brings a generator's state to where this one is; what the state has besides (seed, spare normals) stays.
    // `state` has kTorchStateBytes.
    void store_torch_state(std::uint8_t* state) const noexcept;

    // The whole of it, to be kept: the words, `left` and `next`, as little-endian 32-bit numbers.
    static constexpr std::size_t kPackedBytes = 4 * (624 + 2);
    void pack(std::uint8_t* bytes) const noexcept;
    // False, and no change, where `bytes` are none that pack() writes.
    bool unpack(ByteSpan bytes) noexcept;

  private:
    static constexpr std::size_t kWords = 624;

    // Each draw takes one from `left` and adds one to `next`; a generator that was only seeded mixes first.
    static bool are_counters(std::uint64_t left, std::uint64_t next) noexcept;

    void mix() noexcept;

    std::array<std::uint32_t, kWords> words_;
    // torch's two counters: the next draw takes words_[next_], after mixing if it is the last of left_.
    std::uint32_t left_ = 1;
    std::uint32_t next_ = 0;
};

}  // namespace fastload
