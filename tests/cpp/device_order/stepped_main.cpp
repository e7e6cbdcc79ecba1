// Staged batches on fake GPUs, under several schedules. Prints the batches with wrong data of each schedule; the exit
// status is 1 if there are any.
#include <cstdint>
#include <functional>
#include <iostream>
#include <utility>

#include "device_order/staged.h"
#include "opened_gpu.h"

namespace {

using fake_cuda::FakeGpu;
using fastload::EventId;
using fastload::StreamId;
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
    void finish(EventId) { gpu_.synchronize(compute_); }
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

int wrong_batches(OpenedGpu& device, std::function<void(StreamId)> pause) {
    static RingMemory memory;
    CheckingPlayer player(device.gpu, std::move(pause));
    const bool is_ok = fastload::testing::run_staged(device.backend, player, &memory);
    if (!is_ok) {
        std::cerr << "a call failed\n";
        return fastload::testing::kNumBatches;
    }
    device.gpu.synchronize_all();
    return player.num_wrong();
}

int wrong_as_late_as_possible() {
    OpenedGpu device;
    return wrong_batches(device, [](StreamId) {});
}

int wrong_with_kernels_first() {
    OpenedGpu device;
    return wrong_batches(device, [&](StreamId compute) {
        while (device.gpu.step(compute)) continue;
    });
}

int wrong_at_random(std::uint64_t seed) {
    OpenedGpu device;
    return wrong_batches(device, [&, seed](StreamId) mutable {
        for (seed = seed * 6364136223846793005U + 1442695040888963407U; seed >> 62 != 0; seed <<= 2) {
            if (!device.gpu.step_any(seed >> 33)) return;
        }
    });
}

}  // namespace

int main() {
    const int late = wrong_as_late_as_possible();
    const int kernels_first = wrong_with_kernels_first();
    int random = 0;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) random += wrong_at_random(seed);
    std::cout << "wrong batches: late " << late << ", kernels first " << kernels_first << ", random " << random << "\n";
    return late + kernels_first + random == 0 ? 0 : 1;
}
