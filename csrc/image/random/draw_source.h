// Sources of random numbers for transforms: torch's generator, or a counter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/counter_rng.h"
#include "base/enum_names.h"
#include "base/mt19937_stream.h"
#include "image/random/torch_exp.h"

namespace fastload {

// The two families of torchvision's transforms. They make the same choices from different draws, or in another order.
enum class TorchvisionFamily : std::uint8_t {
    kV1,  // torchvision.transforms
    kV2,  // torchvision.transforms.v2
};

template <>
struct EnumNames<TorchvisionFamily> {
    static constexpr const char* kArgument = "family";
    static constexpr std::pair<const char*, TorchvisionFamily> kNames[] = {{"v1", TorchvisionFamily::kV1},
                                                                           {"v2", TorchvisionFamily::kV2}};
};

// Draws one element, float32, as torch's functions do. The caller asks for draws in torchvision's order. Not
// thread-safe.
class DrawSource {
  public:
    virtual ~DrawSource() = default;

    // The following draws belong to the step at `position` of the user's pipeline.
    virtual void begin_step(std::uint32_t position) noexcept = 0;

    // torch.randint(n, (1,)), 0 < n < 2^28 (for larger n torch takes two words).
    virtual std::uint32_t below(std::uint32_t n) noexcept = 0;

    // torch.rand(1).
    float uniform() noexcept { return static_cast<float>(next_bits24()) * 0x1p-24F; }

    // torch.rand(1) < probability.
    bool happens(double probability) noexcept { return uniform() < static_cast<float>(probability); }

    // torch.empty(1).uniform_(from, to).
    float uniform(float from, float to) noexcept { return scaled_uniform(next_bits24(), from, to, rule_); }

    // torch.exp(torch.empty(1).uniform_(from, to)), with torch's own exp of these numbers (null: the correctly rounded
    // one).
    float uniform_exp(float from, float to, const TorchExp* torch_exp) noexcept;

    // torch.randperm(n), n < 256: a forward Fisher-Yates shuffle.
    void permutation(std::uint8_t* out, std::size_t n) noexcept;

  protected:
    explicit DrawSource(UniformRule rule) noexcept : rule_(rule) {}

  private:
    virtual std::uint32_t next_bits24() noexcept = 0;

    UniformRule rule_;
};

// Draws named by (seed, epoch, sample, draw number, step): Note [counter layout].
class CounterDraws final : public DrawSource {
  public:
    CounterDraws(std::uint64_t seed, std::uint64_t epoch, std::uint64_t sample_index,
                 std::uint32_t draw_number = 0) noexcept
        : DrawSource(UniformRule{}),
          seed_(seed),
          epoch_(epoch),
          sample_index_(sample_index),
          draw_number_(draw_number),
          rng_(stream_of(0)) {}

    void begin_step(std::uint32_t position) noexcept override { rng_ = stream_of(position); }
    std::uint32_t below(std::uint32_t n) noexcept override { return rng_.below(n); }

  private:
    std::uint32_t next_bits24() noexcept override { return rng_.next_uint32() >> 8; }

    CounterRng stream_of(std::uint32_t position) const noexcept {
        return CounterRng(seed_, epoch_, sample_index_, position, DrawDomain::kTransforms, draw_number_);
    }

    std::uint64_t seed_;
    std::uint64_t epoch_;
    std::uint64_t sample_index_;
    std::uint32_t draw_number_;
    CounterRng rng_;
};

// Draws from a stream of torch's generator, one after the other.
class TorchDraws final : public DrawSource {
  public:
    TorchDraws(const Mt19937Stream& stream, UniformRule rule) noexcept : DrawSource(rule), stream_(stream) {}

    void begin_step(std::uint32_t) noexcept override {}
    std::uint32_t below(std::uint32_t n) noexcept override { return stream_.next_uint32() % n; }

    Mt19937Stream& stream() noexcept { return stream_; }
    const Mt19937Stream& stream() const noexcept { return stream_; }

  private:
    std::uint32_t next_bits24() noexcept override { return stream_.next_uint32() & 0xffffffU; }

    Mt19937Stream stream_;
};

}  // namespace fastload
