// device_order right|refill|overwrite|consume: two rings of two threads, on fibers of the thread sanitizer, which
// reports what is forgotten and ends with its own exit status, 66.
#include <iostream>
#include <thread>

#include "device_order/ring.h"
#include "fiber_device.h"

namespace {

using fastload::EventId;
using fastload::StreamId;
using fastload::testing::FiberDevice;
using fastload::testing::Forgotten;
using fastload::testing::RingMemory;
using fastload::testing::Slot;

class Player {
  public:
    explicit Player(FiberDevice& device) : device_(device) {}

    void consume(StreamId stream, const Slot& buffer, int) { device_.read(stream, &buffer, sizeof buffer); }
    void finish(EventId event) {
        for (bool is_done = false; !is_done && device_.query_event(event, &is_done).is_ok();) continue;
    }
    void pause() {}

  private:
    FiberDevice& device_;
};

}  // namespace

int main(int argc, char** argv) {
    Forgotten forgotten;
    if (argc != 2 || !fastload::testing::parse_forgotten(argv[1], &forgotten)) {
        std::cerr << "usage: device_order right|refill|overwrite|consume\n";
        return 2;
    }
    FiberDevice device;
    static RingMemory memories[2];
    bool are_ok[2] = {};
    const auto run = [&](int i) {
        Player player(device);
        are_ok[i] = fastload::testing::run_ring(device, player, forgotten, &memories[i]);
    };
    std::thread other(run, 1);
    run(0);
    other.join();
    return are_ok[0] && are_ok[1] ? 0 : 1;
}
