// device_order right|refill|overwrite|consume|staged: a ring on fake GPUs, under several schedules. Prints the batches
// with wrong data of each schedule; the exit status is 1 if there are any.
#include <cstdint>
#include <functional>
#include <iostream>
#include <optional>
#include <string_view>
#include <utility>

#include "device_order/ring.h"
#include "device_order/staged.h"
#include "opened_gpu.h"

namespace {

using fake_cuda::FakeGpu;
using fastload::EventId;
using fastload::StreamId;
using fastload::testing::Forgotten;
using fastload::testing::OpenedGpu;
using fastload::testing::RingMemory;
using fastload::testing::Slot;

class CheckingPlayer {
  public:
    // `pause` makes the steps that the schedule has after each batch.
    CheckingPlayer(FakeGpu& gpu, std::function<void(StreamId compute)> pause) : gpu_(gpu), pause_(std::move(pause)) {}

    void consume(StreamId stream, const Slot& buffer, int batch) {
        compute_ = stream;
        gpu_.enqueue(stream,
                     [this, &buffer, batch] { num_wrong_ += buffer != fastload::testing::batch_data(batch) ? 1 : 0; });
    }
    void finish(EventId event) { gpu_.run_until(event); }
    void wait_for_slot(StreamId copies) {
        if (!gpu_.step(copies)) gpu_.step_any(0);
    }
    void pause() { pause_(compute_); }

    int num_wrong() const { return num_wrong_; }

  private:
    FakeGpu& gpu_;
    const std::function<void(StreamId)> pause_;
    StreamId compute_ = 0;
    int num_wrong_ = 0;
};

// Without `forgotten`, runs the product's own ring.
using What = std::optional<Forgotten>;

int wrong_batches(What forgotten, OpenedGpu& device, std::function<void(StreamId)> pause) {
    static RingMemory memory;
    CheckingPlayer player(device.gpu, std::move(pause));
    const bool is_ok = forgotten ? fastload::testing::run_ring(*device.backend, player, *forgotten, &memory)
                                 : fastload::testing::run_staged(device.backend, player, &memory);
    if (!is_ok) {
        std::cerr << "a call failed\n";
        return fastload::testing::kNumBatches;
    }
    device.gpu.synchronize_all();
    return player.num_wrong();
}

int wrong_as_late_as_possible(What forgotten) {
    OpenedGpu device;
    return wrong_batches(forgotten, device, [](StreamId) {});
}

int wrong_with_kernels_first(What forgotten) {
    OpenedGpu device;
    return wrong_batches(forgotten, device, [&](StreamId compute) {
        while (device.gpu.step(compute)) continue;
    });
}

int wrong_at_random(What forgotten, std::uint64_t seed) {
    OpenedGpu device;
    return wrong_batches(forgotten, device, [&, seed](StreamId) mutable {
        for (seed = seed * 6364136223846793005U + 1442695040888963407U; seed >> 62 != 0; seed <<= 2) {
            if (!device.gpu.step_any(seed >> 33)) return;
        }
    });
}

}  // namespace

int main(int argc, char** argv) {
    Forgotten named = Forgotten::kNothing;
    const bool is_staged = argc == 2 && std::string_view(argv[1]) == "staged";
    if (!is_staged && (argc != 2 || !fastload::testing::parse_forgotten(argv[1], &named))) {
        std::cerr << "usage: device_order right|refill|overwrite|consume|staged\n";
        return 2;
    }
    const What forgotten = is_staged ? std::nullopt : What(named);
    const int late = wrong_as_late_as_possible(forgotten);
    const int kernels_first = wrong_with_kernels_first(forgotten);
    int random = 0;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) random += wrong_at_random(forgotten, seed);
    std::cout << "wrong batches: late " << late << ", kernels first " << kernels_first << ", random " << random << "\n";
    return late + kernels_first + random == 0 ? 0 : 1;
}
