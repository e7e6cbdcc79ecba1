#include "python/worker_forks.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/mapping.h"
#include "base/unique_fd.h"
#include "python/immortal_objects.h"
#include "python/large_containers.h"
#include "python/sharable_types.h"
#include "python/without_gil.h"

namespace fastload {
namespace {

// How often a worker that waits looks whether its parent still lives.
constexpr int kLookMilliseconds = 100;
// How long the parent waits for processes that it has killed.
constexpr int kEndMilliseconds = 5000;

// This process is a worker that shares objects, or was forked from one. Touched only under the GIL.
bool g_is_sharing = false;

[[noreturn]] void throw_os_error(int error) {
    errno = error;
    PyErr_SetFromErrno(PyExc_OSError);
    throw PythonError();
}

// Makes this process the one to which the orphans among its descendants go, while any thread needs it. Use with the
// GIL.
class Subreaper {
  public:
    Subreaper() noexcept {
        if (g_use.process != ::getpid()) g_use = {::getpid(), 0, 0};  // a fork may have copied another's
        if (g_use.threads++ == 0) ::prctl(PR_GET_CHILD_SUBREAPER, &g_use.value_before);
        is_effective_ = ::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
    }
    ~Subreaper() {
        if (g_use.process != ::getpid() || --g_use.threads != 0) return;
        ::prctl(PR_SET_CHILD_SUBREAPER, g_use.value_before);  // it has accepted the other value
    }
    Subreaper(const Subreaper&) = delete;  // counted
    Subreaper& operator=(const Subreaper&) = delete;

    bool is_effective() const noexcept { return is_effective_; }

  private:
    struct Use {
        pid_t process;
        int threads;
        int value_before;
    };
    static Use g_use;  // touched only under the GIL

    bool is_effective_ = false;
};
Subreaper::Use Subreaper::g_use = {0, 0, 0};

// Lets the system end this process before its parent, which is as large, if memory runs out meanwhile.
class FirstToEnd {
  public:
    FirstToEnd() noexcept : size_before_(::pread(file_.get(), before_, sizeof before_, 0)) { write("1000", 4); }
    ~FirstToEnd() { write(before_, size_before_); }

  private:
    void write(const char* score, ssize_t size) noexcept {
        if (size_before_ <= 0) return;
        [[maybe_unused]] const ssize_t written = ::pwrite(file_.get(), score, static_cast<std::size_t>(size), 0);
    }

    const UniqueFd file_{::open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC)};
    char before_[16];
    ssize_t size_before_;
};

// The outcome of the maker, for its parent.
enum class MakerResult : int { kNone, kDone, kForkFailed, kNoMemory };

// A page of memory in which forked processes tell their parent about themselves. Shared with processes that are forked
// after its creation; each has to destroy it. A process sees what another one has written once it knows by the system
// that it has ended; see Note [maker].
class ForkPage {
  public:
    // Throws PythonError if there is no memory.
    explicit ForkPage(int num_workers) : num_workers_(num_workers) {
        const std::size_t bytes = sizeof(Content) + static_cast<std::size_t>(num_workers) * sizeof(pid_t);
        void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) throw_os_error(errno);
        memory_ = Mapping(static_cast<std::uint8_t*>(memory), bytes);
    }

    int num_workers() const noexcept { return num_workers_; }

    // 0 until it is set.
    pid_t pid(int worker) const noexcept { return pids()[worker]; }
    void set_pid(int worker, pid_t pid) noexcept { pids()[worker] = pid; }

    void set_result(MakerResult result, int error = 0) noexcept {
        content().error = error;
        content().result = result;
    }
    MakerResult result() const noexcept { return content().result; }
    int error() const noexcept { return content().error; }  // the errno of kForkFailed

  private:
    struct Content {
        volatile MakerResult result;  // volatile: another process ends between two accesses
        volatile int error;
    };
    Content& content() const noexcept { return *reinterpret_cast<Content*>(memory_.data()); }
    volatile pid_t* pids() const noexcept { return reinterpret_cast<volatile pid_t*>(&content() + 1); }

    Mapping memory_;
    int num_workers_;
};

struct Channel {
    UniqueFd parent;
    UniqueFd worker;
};

Channel open_pipe(bool is_parent_reading) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw_os_error(errno);
    if (!is_parent_reading) std::swap(ends[0], ends[1]);
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Channel open_socket() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw_os_error(errno);
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Waits for a child to end, also if something else has reaped it.
void reap(pid_t pid) noexcept {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
}

// One call of fork_workers(), in the parent, the maker and the workers.
class WorkerForks {
  public:
    WorkerForks(PyObject* roots, int num_workers)
        : roots_(roots), page_(num_workers), go_(open_socket()), parent_pid_(::getpid()) {
        for (int i = 0; i < num_workers; ++i) {
            sentinels_.push_back(open_pipe(true));
            lifelines_.push_back(open_pipe(false));
        }
    }

    Ref run();

  private:
    int run_maker() noexcept;
    Ref become_worker(int number);
    bool is_told_to_go() const noexcept;
    Ref finish_in_parent();
    int wait_for_maker();
    void end_all() noexcept;
    Ref list_of_workers() const;

    PyObject* const roots_;
    const SharableTypes types_;
    ForkPage page_;
    // The workers read from it; the parent gets an end of file once all processes that were forked have ended.
    Channel go_;
    std::vector<Channel> sentinels_;
    std::vector<Channel> lifelines_;
    const pid_t parent_pid_;
    pid_t maker_pid_ = 0;  // 0 again in the parent once the maker has ended
};

Ref WorkerForks::run() {
    const Subreaper subreaper;
    if (!subreaper.is_effective()) return checked(PyUnicode_FromString("the system refuses to hand over processes"));
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    PyOS_BeforeFork();
    ::pthread_sigmask(SIG_BLOCK, &all, &before);
    maker_pid_ = ::fork();
    const int error = errno;
    if (maker_pid_ == 0) return become_worker(run_maker());
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    PyOS_AfterFork_Parent();
    if (maker_pid_ < 0) throw_os_error(error);
    return finish_in_parent();
}

// Returns in the workers alone, with the worker's number.
int WorkerForks::run_maker() noexcept {
    maker_pid_ = ::getpid();
    go_.parent = UniqueFd();
    {
        const FirstToEnd first_to_end;
        const LargeContainers containers(types_, roots_);
        if (!make_elements_immortal(types_, containers)) {
            page_.set_result(MakerResult::kNoMemory);
            ::_exit(0);
        }
    }
    for (int number = 0; number < page_.num_workers(); ++number) {
        const pid_t worker = ::fork();
        if (worker == 0) return number;
        if (worker < 0) {
            page_.set_result(MakerResult::kForkFailed, errno);
            ::_exit(0);
        }
        page_.set_pid(number, worker);
    }
    page_.set_result(MakerResult::kDone);
    ::_exit(0);
}

Ref WorkerForks::become_worker(int number) {
    page_.set_pid(number, ::getpid());  // the maker may be killed before it does
    const auto own = static_cast<std::size_t>(number);
    UniqueFd parent_sentinel = std::move(lifelines_[own].worker);
    sentinels_[own].worker.release();  // closed by the end of the process, which is what it tells
    sentinels_.clear();
    lifelines_.clear();
    if (!is_told_to_go()) ::_exit(1);
    go_.worker = UniqueFd();
    g_is_sharing = true;
    PyOS_AfterFork_Child();
    return checked(Py_BuildValue("(ii)", number, parent_sentinel.release()));
}

// Returns false when it is certain that no one will say go.
bool WorkerForks::is_told_to_go() const noexcept {
    for (;;) {
        pollfd channel = {go_.worker.get(), POLLIN, 0};
        if (::poll(&channel, 1, kLookMilliseconds) > 0) {
            char go = 0;
            const ssize_t got = ::recv(channel.fd, &go, 1, MSG_DONTWAIT);  // another worker may have been faster
            if (got == 1) return ::getppid() == parent_pid_;
            if (got == 0 || (errno != EAGAIN && errno != EINTR)) return false;
        }
        const pid_t parent = ::getppid();
        if (parent != maker_pid_ && parent != parent_pid_) return false;
    }
}

Ref WorkerForks::finish_in_parent() {
    go_.worker = UniqueFd();
    for (Channel& pipe : sentinels_) pipe.worker = UniqueFd();
    for (Channel& pipe : lifelines_) pipe.worker = UniqueFd();
    try {
        const int status = wait_for_maker();
        const MakerResult result = page_.result();
        if (result == MakerResult::kForkFailed) throw_os_error(page_.error());
        if (result == MakerResult::kDone) {
            Ref workers = list_of_workers();
            const std::vector<char> go(sentinels_.size(), 'g');
            if (::send(go_.parent.get(), go.data(), go.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(go.size())) {
                throw_os_error(errno);
            }
            for (Channel& pipe : sentinels_) pipe.parent.release();  // the list has them
            for (Channel& pipe : lifelines_) pipe.parent.release();
            return workers;
        }
        end_all();
        if (result == MakerResult::kNoMemory) return checked(PyUnicode_FromString("memory ran out"));
        if (!WIFSIGNALED(status)) return checked(PyUnicode_FromString("the process that shares them ended early"));
        return checked(PyUnicode_FromFormat("the process that shares them was killed by signal %d; memory may be short",
                                            WTERMSIG(status)));
    } catch (const PythonError&) {
        end_all();
        throw;
    }
}

// Returns the maker's exit status, 0 if something else has reaped it.
int WorkerForks::wait_for_maker() {
    for (;;) {
        int status = 0;
        const int error = without_gil([&] { return ::waitpid(maker_pid_, &status, 0) < 0 ? errno : 0; });
        if (error != EINTR) maker_pid_ = 0;
        check(PyErr_CheckSignals());  // also at the end: what a handler raised later would lose the workers
        if (error != EINTR) return error == 0 ? status : 0;
    }
}

// Ends and reaps every process that was forked, also a worker whose pid the maker could not write any more.
void WorkerForks::end_all() noexcept {
    if (maker_pid_ != 0) {
        ::kill(maker_pid_, SIGKILL);
        reap(maker_pid_);
    }
    ::shutdown(go_.parent.get(), SHUT_WR);
    for (int number = 0; number < page_.num_workers(); ++number) {
        if (page_.pid(number) != 0) ::kill(page_.pid(number), SIGKILL);
    }
    // A program may have forked a process of its own that holds the other end, hence the limit.
    pollfd channel = {go_.parent.get(), POLLIN, 0};
    ::poll(&channel, 1, kEndMilliseconds);
    for (int number = 0; number < page_.num_workers(); ++number) {
        if (page_.pid(number) != 0) reap(page_.pid(number));
    }
}

Ref WorkerForks::list_of_workers() const {
    Ref workers = checked(PyList_New(static_cast<Py_ssize_t>(sentinels_.size())));
    for (std::size_t i = 0; i < sentinels_.size(); ++i) {
        const Ref worker = checked(Py_BuildValue("(iii)", static_cast<int>(page_.pid(static_cast<int>(i))),
                                                 sentinels_[i].parent.get(), lifelines_[i].parent.get()));
        PyList_SET_ITEM(workers.get(), static_cast<Py_ssize_t>(i), worker.share());
    }
    return workers;
}

}  // namespace

const char* sharing_obstacle() noexcept {
    if (!kHasImmortalObjects) {
#ifdef Py_GIL_DISABLED
        return "this Python is built without the GIL, which counts references in another way";
#else
        return "only Python 3.12 and newer can read objects without writing to them";
#endif
    }
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) return "the program runs in a subinterpreter";
    return g_is_sharing ? "this process shares the objects of another one" : nullptr;
}

Ref fork_workers(PyObject* roots, int num_workers) {
    check(PySys_Audit("os.fork", nullptr));
    return WorkerForks(roots, num_workers).run();
}

}  // namespace fastload
