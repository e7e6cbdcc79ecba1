// Runs a part of a test in a forked process.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

namespace fastload::testing {

// Returns 0 if `child` returns true in a forked process within 20 s, 1 if it returns false.
template <typename Child>
int in_forked_child(const Child& child) {
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(20);  // a lock of the parent's would be waited for without end
        _exit(child() ? 0 : 1);
    }
    int status = -1;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A forked process that has the open files of this one, until it is told to end.
class IdleChild {
  public:
    IdleChild() {
        CHECK(::pipe(pipe_) == 0);
        pid_ = fork();
        if (pid_ != 0) return;
        alarm(20);
        ::close(pipe_[1]);
        char byte = 0;
        _exit(::read(pipe_[0], &byte, 1) == 0 ? 0 : 1);  // the parent's end is closed
    }
    IdleChild(const IdleChild&) = delete;  // a process, not a value
    IdleChild& operator=(const IdleChild&) = delete;
    ~IdleChild() {
        ::close(pipe_[1]);
        ::close(pipe_[0]);
        int status = -1;
        CHECK(waitpid(pid_, &status, 0) == pid_ && status == 0);
    }

  private:
    int pipe_[2] = {-1, -1};
    pid_t pid_ = -1;
};

}  // namespace fastload::testing
