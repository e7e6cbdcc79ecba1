// Random draws that depend only on their purpose, not on which thread makes them or when.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace fastload {

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC11): ten rounds that turn
// a 128-bit counter and a 64-bit key into 128 random bits. Word 0 is the least significant one.
inline std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key) noexcept {
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * counter[0];
        const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * counter[2];
        counter = {
            static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
            static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
        key[0] += 0x9E3779B9U;
        key[1] += 0xBB67AE85U;
    }
    return counter;
}

// The purpose of the numbers. It keeps the uses of one seed apart.
enum class DrawDomain : std::uint32_t {
    kTransforms = 0x464C4431U,  // "FLD1"
    kWeights = 0x464C5731U,     // "FLW1"
};

// Note [counter layout]
// Each transform has a stream for each sample in each epoch. The stream's name (seed, epoch, sample index, draw number,
// transform position) has 256 bits and Philox takes 192, so it is folded in two steps:
//   stream key = words 0 and 1 of philox(counter = {epoch low, epoch high, position, domain}, key = seed)
//   draws 4b .. 4b + 3 = philox(counter = {sample low, sample high, b, draw number}, key = stream key)
// Within one (seed, epoch, position), different samples and different draws of one sample have disjoint counters;
// between two of these triples, streams collide with probability 2^-64. Nothing depends on threads or on the order of
// samples. Changing this layout changes what users see for a given seed. The draw number is 0 if an epoch has each
// sample once. If samples are drawn with replacement, the draw number is the sample's position in the epoch mod 2^32,
// so that two draws of one sample give two images. Draw number q of a sampler with weights is the uniform number of the
// stream in the domain kWeights, at sample q and position 0: with words w0, w1 of block 0, ((w1 * 2^32 + w0) >> 11) *
// 2^-53.
class CounterRng {
  public:
    CounterRng(std::uint64_t seed, std::uint64_t epoch, std::uint64_t sample_index, std::uint32_t transform_position,
               DrawDomain domain = DrawDomain::kTransforms, std::uint32_t draw_number = 0) noexcept
        : counter_{low(sample_index), high(sample_index), 0, draw_number} {
        const auto key = philox4x32_10(
            {low(epoch), high(epoch), transform_position, static_cast<std::uint32_t>(domain)}, {low(seed), high(seed)});
        key_ = {key[0], key[1]};
    }

    std::uint32_t next_uint32() noexcept {
        if (used_words_ == block_.size()) {
            block_ = philox4x32_10(counter_, key_);
            ++counter_[2];
            used_words_ = 0;
        }
        return block_[used_words_++];
    }

    // Uniform on [0, 1), with 53 bits.
    double next_double() noexcept {
        const std::uint64_t low_word = next_uint32();
        const std::uint64_t high_word = next_uint32();
        return static_cast<double>((high_word << 32 | low_word) >> 11) * 0x1p-53;
    }

    // Uniform on [0, n), n > 0, without bias: rejects the draws that would make some values more likely (Lemire, "Fast
    // random integer generation in an interval", 2019).
    std::uint32_t below(std::uint32_t n) noexcept {
        const std::uint32_t first_fair = (0U - n) % n;  // 2^32 mod n
        for (;;) {
            const std::uint64_t product = std::uint64_t{next_uint32()} * n;
            if (low(product) >= first_fair) return high(product);
        }
    }

  private:
    static constexpr std::uint32_t low(std::uint64_t value) noexcept { return static_cast<std::uint32_t>(value); }
    static constexpr std::uint32_t high(std::uint64_t value) noexcept {
        return static_cast<std::uint32_t>(value >> 32);
    }

    std::array<std::uint32_t, 4> counter_;
    std::array<std::uint32_t, 2> key_{};
    std::array<std::uint32_t, 4> block_{};
    std::size_t used_words_ = 4;
};

}  // namespace fastload
