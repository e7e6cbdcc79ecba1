// Runs a part of a test in a forked process.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

namespace fastload::testing {

// 0 where `child` says true in a forked process within 20 s; 1 where it says false.
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

}  // namespace fastload::testing
