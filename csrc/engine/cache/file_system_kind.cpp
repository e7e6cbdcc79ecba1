#include "engine/cache/file_system_kind.h"

#include <fcntl.h>
#include <sys/vfs.h>

#include <cstdint>

#include "base/unique_fd.h"

namespace fastload {
namespace {

// Numbers that statfs() gives: man 2 statfs, and the kernel's linux/magic.h.
constexpr std::uint32_t kFuse = 0x65735546;
constexpr std::uint32_t kServed[] = {
    0x6969,      // NFS
    0x517B,      // SMB
    0xFF534D42,  // CIFS
    0xFE534D42,  // SMB 2
    0x00C36400,  // Ceph
    0x5346414F,  // AFS
    0x6B414653,  // AFS, the kernel's other one
    0x73757245,  // Coda
    0x01021997,  // 9P
    0x0BD00BD0,  // Lustre
    0x47504653,  // GPFS
    0x7461636F,  // OCFS2
    0x01161970,  // GFS2
    0x19830326,  // BeeGFS
    0x786F4256,  // VirtualBox
    0x20030528,  // OrangeFS
};

FileSystemKind ask(int directory, const char* name) {
    const UniqueFd named(*name == '\0' ? -1 : ::openat(directory, name, O_PATH | O_CLOEXEC));
    struct statfs facts = {};
    if (::fstatfs(*name == '\0' ? directory : named.get(), &facts) != 0) return FileSystemKind::kProgram;
    const auto type = static_cast<std::uint32_t>(facts.f_type);
    if (type == kFuse) return FileSystemKind::kProgram;
    for (const std::uint32_t served : kServed) {
        if (type == served) return FileSystemKind::kServed;
    }
    return FileSystemKind::kLocal;
}

}  // namespace

FileSystemKind FileSystemKinds::find(dev_t device, int directory, const char* name) noexcept {
    const std::uint64_t tag = std::uint64_t{device} << 2;
    for (const std::atomic<std::uint64_t>& known : known_) {
        const std::uint64_t value = known.load(std::memory_order_relaxed);
        if (value != 0 && (value & ~std::uint64_t{3}) == tag) return static_cast<FileSystemKind>((value & 3) - 1);
    }
    const FileSystemKind kind = ask(directory, name);
    for (std::atomic<std::uint64_t>& known : known_) {
        std::uint64_t none = 0;
        if (known.compare_exchange_strong(none, tag | (static_cast<std::uint64_t>(kind) + 1))) break;
    }
    return kind;
}

}  // namespace fastload
