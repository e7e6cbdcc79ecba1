// How far the times of files on a file system can be trusted.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

namespace fastload {

enum class FileSystemKind : std::uint8_t {
    kLocal,   // the kernel sets them
    kServed,  // a server does: a client remembers them until the file is opened
    kProgram  // FUSE: a program may say anything, and the same for ever
};

// Asks the system once for each device. Thread-safe.
class FileSystemKinds {
  public:
    // The kind of the file system with this device number, on which `name` in `directory` (as for openat()) is, or the
    // open file `directory` where the name is empty.
    FileSystemKind find(dev_t device, int directory, const char* name) noexcept;

  private:
    static constexpr int kMaxDevices = 16;  // of others it is asked again and again

    // The device's number and, in the lowest two bits, the kind and 1; 0: none yet.
    std::atomic<std::uint64_t> known_[kMaxDevices] = {};
};

}  // namespace fastload
