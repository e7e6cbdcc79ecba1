// The kinds of file systems, by how far the times of their files can be trusted.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

namespace fastload {

enum class FileSystemKind : std::uint8_t {
    kLocal,   // the kernel sets them
    kServed,  // a server sets them; a client remembers them until the file is opened
    kProgram  // FUSE: a program may report anything, and the same for ever
};

// Asks the system once for each device. Thread-safe.
class FileSystemKinds {
  public:
    // Returns the kind of the file system with this device number. `name` in `directory` (as for openat()) lies on it,
    // or the open file `directory` if the name is empty.
    FileSystemKind find(dev_t device, int directory, const char* name) noexcept;

  private:
    static constexpr int kMaxDevices = 16;  // for any other device the system is asked each time

    // The device's number and, in the lowest two bits, the kind plus 1; 0 if there is none yet.
    std::atomic<std::uint64_t> known_[kMaxDevices] = {};
};

}  // namespace fastload
