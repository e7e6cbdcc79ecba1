// A page of memory in which forked processes tell their parent about themselves.
#pragma once

#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>

#include "python/ref.h"

namespace fastload {

enum class MakerResult : int { kNone, kDone, kForkFailed, kNoMemory };

// Shared with processes that are forked after its creation; each has to destroy it. A process sees what another one has
// written once it knows by the system that it has ended; see Note [maker].
class ForkPage {
  public:
    // Throws PythonError if there is no memory.
    explicit ForkPage(int num_workers)
        : bytes_(sizeof(Content) + static_cast<std::size_t>(num_workers) * sizeof(pid_t)), num_workers_(num_workers) {
        void* const memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            PyErr_SetFromErrno(PyExc_OSError);
            throw PythonError();
        }
        content_ = static_cast<Content*>(memory);
    }
    ~ForkPage() { ::munmap(content_, bytes_); }
    ForkPage(const ForkPage&) = delete;  // one owner a process
    ForkPage& operator=(const ForkPage&) = delete;

    int num_workers() const noexcept { return num_workers_; }

    // 0 until it is set.
    pid_t pid(int worker) const noexcept { return pids()[worker]; }
    void set_pid(int worker, pid_t pid) noexcept { pids()[worker] = pid; }

    void set_result(MakerResult result, int error = 0) noexcept {
        content_->error = error;
        content_->result = result;
    }
    MakerResult result() const noexcept { return content_->result; }
    int error() const noexcept { return content_->error; }  // the errno of kForkFailed

  private:
    struct Content {
        volatile MakerResult result;  // volatile: another process ends between two accesses
        volatile int error;
    };
    volatile pid_t* pids() const noexcept { return reinterpret_cast<volatile pid_t*>(content_ + 1); }

    Content* content_ = nullptr;
    std::size_t bytes_;
    int num_workers_;
};

}  // namespace fastload
