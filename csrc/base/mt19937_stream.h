// torch's CPU generator: the same words from the same seed, without torch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/span.h"

namespace fastload {

// MT19937 (Matsumoto, Nishimura: "Mersenne Twister", TOMACS 8(1), 1998) seeded and stored as at::CPUGeneratorImpl does.
// A value type of 2.5 KB: copy it to save a state.
class Mt19937Stream {
  public:
    // The size in bytes of torch.Generator.get_state() for a CPU generator.
    static constexpr std::size_t kTorchStateBytes = 5056;

    // Seeds as torch.manual_seed(seed) does: only the low 32 bits count.
    explicit Mt19937Stream(std::uint64_t seed = 0) noexcept;

    std::uint32_t next_uint32() noexcept;

    // Continues from the state of a torch generator. Returns false and changes nothing if `state` is not such a state.
    bool load_torch_state(ByteSpan state) noexcept;

    // Writes this position to a generator's state, and leaves the rest of it (seed, spare normals) as it is. `state`
    // has kTorchStateBytes.
    void store_torch_state(std::uint8_t* state) const noexcept;

    // The complete state in a form to store: the words, `left` and `next`, as little-endian 32-bit numbers.
    static constexpr std::size_t kPackedBytes = 4 * (624 + 2);
    void pack(std::uint8_t* bytes) const noexcept;
    // Returns false and changes nothing if pack() did not write `bytes`.
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
