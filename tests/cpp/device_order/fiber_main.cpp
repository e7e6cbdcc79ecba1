// Staged batches of two threads, on fibers of the thread sanitizer, which reports forgotten waits and ends with its own
// exit status, 66.
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include "cuda/cuda_backend.h"
#include "device_order/fiber_cudart.h"
#include "device_order/staged.h"

namespace {

using fastload::DeviceBackend;
using fastload::EventId;
using fastload::StreamId;
using fastload::testing::RingMemory;
using fastload::testing::Slot;

class Player {
  public:
    explicit Player(DeviceBackend& device) : device_(device) {}

    void consume(StreamId stream, const Slot& buffer, int) {
        fiber_read(reinterpret_cast<void*>(stream), &buffer, sizeof buffer);
    }
    void finish(EventId event) {
        for (bool is_done = false; !is_done && device_.query_event(event, &is_done).is_ok();) continue;
    }
    void wait_for_slot(StreamId) {}
    void pause() {}

  private:
    DeviceBackend& device_;
};

}  // namespace

int main() {
    std::string problem;
    const std::shared_ptr<DeviceBackend> device = fastload::open_cuda_backend(12, 0, &problem);
    if (device == nullptr) {
        std::cerr << problem << "\n";
        return 2;
    }
    static RingMemory memories[2];
    bool are_ok[2] = {};
    const auto run = [&](int i) {
        Player player(*device);
        are_ok[i] = fastload::testing::run_staged(device, player, &memories[i]);
    };
    std::thread other(run, 1);
    run(0);
    other.join();
    return are_ok[0] && are_ok[1] ? 0 : 1;
}
