/* Stands before libc in a child of the tests, so that a call of the system or of the allocator fails where it is wanted.

   The calls of one kind are counted that are of a file, or of a folder, or of the allocator under a library. From the
   n-th on some of them fail, come back short, or wait until another process has changed the file. failing_calls.py
   compiles it. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <unwind.h>

enum { FAIL, SHORT, PAUSE };

static char g_call[24], g_file[256], g_folder[PATH_MAX], g_reached[PATH_MAX], g_go[PATH_MAX];
static int g_action, g_value, g_first, g_times, g_short_before, g_seen, g_counts_allocations;

/* Set before the calls it is meant for begin. `file`: the end of a path. `value`: errno, or bytes of a short read.
   `short_before`: most bytes of reads before the first that is due; 0: no limit. */
void shim_set(const char *call, const char *file, int action, int value, int first, int times, int short_before) {
    __atomic_store_n(&g_counts_allocations, 0, __ATOMIC_SEQ_CST);
    snprintf(g_call, sizeof g_call, "%s", call);
    snprintf(g_file, sizeof g_file, "%s", file);
    g_action = action, g_value = value, g_first = first, g_times = times, g_short_before = short_before;
    __atomic_store_n(&g_seen, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&g_counts_allocations, strcmp(call, "malloc") == 0, __ATOMIC_SEQ_CST);
}

/* Counts files in `folder` as well as `file`. Empty: no files. */
void shim_set_folder(const char *folder) { snprintf(g_folder, sizeof g_folder, "%s", folder); }

void shim_pause_files(const char *reached, const char *go) {
    snprintf(g_reached, sizeof g_reached, "%s", reached);
    snprintf(g_go, sizeof g_go, "%s", go);
}

int shim_seen(void) { return __atomic_load_n(&g_seen, __ATOMIC_SEQ_CST); }

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int is_wanted_path(const char *path) {
    const size_t length = strlen(path), wanted = strlen(g_file), folder = strlen(g_folder);
    if (folder > 0 && strncmp(path, g_folder, folder) == 0) return 1;
    return wanted > 0 && length >= wanted && strcmp(path + length - wanted, g_file) == 0;
}

static int is_wanted_fd(int fd) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = '\0';
    return is_wanted_path(path);
}

static int is_wanted_at(int folder, const char *path) {
    return folder == AT_FDCWD || path[0] == '/' ? is_wanted_path(path) : is_wanted_fd(folder);
}

static int is_call(const char *call) { return strcmp(call, g_call) == 0; }

static int is_due_now(void) {
    const int number = __atomic_add_fetch(&g_seen, 1, __ATOMIC_SEQ_CST);
    return number >= g_first && number - g_first < g_times;
}

static int is_due(const char *call, int is_wanted) { return is_call(call) && is_wanted && is_due_now(); }

static void wait_for_the_other_process(void) {
    close(REAL(open)(g_reached, O_CREAT | O_WRONLY, 0600));
    for (int i = 0; i < 5000 && access(g_go, F_OK) != 0; ++i) usleep(1000);
}

/* Whether the call fails; errno is set then. */
static int fails(void) {
    if (g_action == PAUSE) wait_for_the_other_process();
    if (g_action == FAIL) errno = g_value;
    return g_action == FAIL;
}

/* ---- files ---- */

#define OPEN(name)                                                       \
    int name(const char *path, int flags, ...) {                         \
        va_list list;                                                    \
        va_start(list, flags);                                           \
        const int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, int) : 0; \
        va_end(list);                                                    \
        if (is_due("open", is_wanted_path(path)) && fails()) return -1;  \
        return REAL(name)(path, flags, mode);                            \
    }
OPEN(open)
OPEN(open64)
#define OPENAT(name)                                                                                 \
    int name(int folder, const char *path, int flags, ...) {                                         \
        va_list list;                                                                                \
        va_start(list, flags);                                                                       \
        const int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, int) : 0;                      \
        va_end(list);                                                                                \
        if (is_call("open") && is_due("open", is_wanted_at(folder, path)) && fails()) return -1;     \
        return REAL(name)(folder, path, flags, mode);                                                \
    }
OPENAT(openat)
OPENAT(openat64)

int fstat(int fd, struct stat *facts) {
    if (is_call("fstat") && is_due("fstat", is_wanted_fd(fd)) && fails()) return -1;
    return REAL(fstat)(fd, facts);
}
int fstat64(int fd, struct stat64 *facts) {
    if (is_call("fstat") && is_due("fstat", is_wanted_fd(fd)) && fails()) return -1;
    return REAL(fstat64)(fd, facts);
}

/* Whether a read or write fails; else *size is how much it may do. */
static int transfer_fails(const char *call, int fd, size_t *size) {
    if (!is_call(call) || !is_wanted_fd(fd)) return 0;
    const int is_now = is_due_now();
    if (is_now && fails()) return 1;
    const int limit = is_now ? (g_action == SHORT ? g_value : 0) : g_short_before;
    if (limit > 0 && *size > (size_t)limit) *size = (size_t)limit;
    return 0;
}

ssize_t read(int fd, void *to, size_t size) {
    return transfer_fails("read", fd, &size) ? -1 : REAL(read)(fd, to, size);
}
ssize_t pread(int fd, void *to, size_t size, off_t at) {
    return transfer_fails("pread", fd, &size) ? -1 : REAL(pread)(fd, to, size, at);
}
ssize_t pread64(int fd, void *to, size_t size, off64_t at) {
    return transfer_fails("pread", fd, &size) ? -1 : REAL(pread64)(fd, to, size, at);
}
ssize_t write(int fd, const void *from, size_t size) {
    return transfer_fails("write", fd, &size) ? -1 : REAL(write)(fd, from, size);
}

#define PREADV(name, parameters, arguments)                                                 \
    ssize_t name parameters {                                                                \
        if (is_call("preadv") && is_due("preadv", is_wanted_fd(fd)) && fails()) return -1;   \
        return REAL(name) arguments;                                                         \
    }
PREADV(preadv, (int fd, const struct iovec *to, int count, off_t at), (fd, to, count, at))
PREADV(preadv64, (int fd, const struct iovec *to, int count, off64_t at), (fd, to, count, at))
PREADV(preadv2, (int fd, const struct iovec *to, int count, off_t at, int flags), (fd, to, count, at, flags))
PREADV(preadv64v2, (int fd, const struct iovec *to, int count, off64_t at, int flags), (fd, to, count, at, flags))

int rename(const char *from, const char *to) {
    return is_due("rename", is_wanted_path(to)) && fails() ? -1 : REAL(rename)(from, to);
}
int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    const int fails_now = is_call("rename") && is_due("rename", is_wanted_at(to_folder, to));
    return fails_now && fails() ? -1 : REAL(renameat)(from_folder, from, to_folder, to);
}
int fsync(int fd) {
    return is_call("fsync") && is_due("fsync", is_wanted_fd(fd)) && fails() ? -1 : REAL(fsync)(fd);
}

DIR *opendir(const char *path) {
    return is_due("opendir", is_wanted_path(path)) && fails() ? NULL : REAL(opendir)(path);
}
#define READDIR(name, entry)                                                                           \
    entry *name(DIR *directory) {                                                                      \
        const int fails_now = is_call("readdir") && is_due("readdir", is_wanted_fd(dirfd(directory))); \
        return fails_now && fails() ? NULL : REAL(name)(directory);                                    \
    }
READDIR(readdir, struct dirent)
READDIR(readdir64, struct dirent64)

/* ---- memory ---- */

struct range {
    uintptr_t begin, end;
};

/* The address ranges of the counted library, of the dynamic linker, of the interpreter's loop, and of everything between
   the library and the allocator: Python, libc, the runtime of C++. */
enum { MOST_BETWEEN = 8 };
static struct range g_library, g_linker, g_interpreter, g_between[MOST_BETWEEN];
static int g_num_between;

static int is_in(struct range range, uintptr_t address) { return address >= range.begin && address < range.end; }

static struct range range_of(const struct dl_phdr_info *info) {
    struct range range = {UINTPTR_MAX, 0};
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
        const uintptr_t first = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (first < range.begin) range.begin = first;
        if (first + info->dlpi_phdr[i].p_memsz > range.end) range.end = first + info->dlpi_phdr[i].p_memsz;
    }
    return range;
}

static int note_library(struct dl_phdr_info *info, size_t size, void *name) {
    (void)size;
    static const char *const between[] = {"/libpython", "/libc.so", "/libstdc++", "/libgcc_s", "/libfailing_calls"};
    const char *const path = info->dlpi_name;
    if (strstr(path, "/ld-linux") != NULL) g_linker = range_of(info);
    if (strstr(path, name) != NULL) g_library = range_of(info);
    int is_between = path[0] == '\0'; /* the program */
    for (size_t i = 0; i < sizeof between / sizeof *between; ++i) is_between |= strstr(path, between[i]) != NULL;
    if (is_between && g_num_between < MOST_BETWEEN) g_between[g_num_between++] = range_of(info);
    return 0;
}

/* Counts allocations that the loaded library with `name` in its path makes, directly or through Python's C functions, but
   not in another library that it calls, nor in code in Python. Returns 0 if no library has that name. */
int shim_set_library(const char *name) {
    g_num_between = 0;
    dl_iterate_phdr(note_library, (void *)name);
    Dl_info facts;
    const ElfW(Sym) *symbol = NULL;
    void *const interpreter = dlsym(RTLD_DEFAULT, "_PyEval_EvalFrameDefault");
    if (interpreter == NULL || dladdr1(interpreter, &facts, (void **)&symbol, RTLD_DL_SYMENT) == 0) return 0;
    g_interpreter = (struct range){(uintptr_t)interpreter, (uintptr_t)interpreter + symbol->st_size};
    return g_library.end != 0;
}

static _Unwind_Reason_Code look_at_frame(struct _Unwind_Context *context, void *is_found) {
    const uintptr_t address = _Unwind_GetIP(context);
    if (is_in(g_library, address)) {
        *(int *)is_found = 1;
        return _URC_END_OF_STACK;
    }
    if (is_in(g_interpreter, address)) return _URC_END_OF_STACK;
    for (int i = 0; i < g_num_between; ++i) {
        if (is_in(g_between[i], address)) return _URC_NO_REASON;
    }
    return _URC_END_OF_STACK;
}

static int is_under_library(void) {
    int is_found = 0;
    _Unwind_Backtrace(look_at_frame, &is_found);
    return is_found;
}

static __thread int t_is_looking, t_fails_next;

static int allocation_fails(const void *caller) {
    /* The dynamic linker ends the process where it has no memory for a thread's variables. */
    if (is_in(g_linker, (uintptr_t)caller)) return 0;
    if (t_fails_next) {
        t_fails_next = 0;
        errno = ENOMEM;
        return 1;
    }
    if (!__atomic_load_n(&g_counts_allocations, __ATOMIC_RELAXED) || t_is_looking) return 0;
    t_is_looking = 1;
    const int is_wanted = is_under_library();
    t_is_looking = 0;
    return is_due("malloc", is_wanted) && fails();
}

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

#define CALLER __builtin_return_address(0)

void *malloc(size_t size) { return allocation_fails(CALLER) ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return allocation_fails(CALLER) ? NULL : __libc_calloc(count, size); }
void *realloc(void *memory, size_t size) { return allocation_fails(CALLER) ? NULL : __libc_realloc(memory, size); }
void *aligned_alloc(size_t alignment, size_t size) {
    return allocation_fails(CALLER) ? NULL : __libc_memalign(alignment, size);
}

#define MMAP(name, offset)                                                                                \
    void *name(void *at, size_t size, int access, int flags, int fd, offset place) {                      \
        if (is_call("mmap") && is_due("mmap", fd < 0 ? is_under_library() : is_wanted_fd(fd)) && fails()) \
            return MAP_FAILED;                                                                            \
        return REAL(name)(at, size, access, flags, fd, place);                                            \
    }
MMAP(mmap, off_t)
MMAP(mmap64, off64_t)

/* Calls that only the counted library makes, with the result -1 where they fail. */
#define OF_LIBRARY(name, parameters, arguments)                                                   \
    int name parameters {                                                                         \
        if (is_call(#name) && is_due(#name, is_under_library()) && fails()) return -1;            \
        return REAL(name) arguments;                                                              \
    }
OF_LIBRARY(memfd_create, (const char *name, unsigned flags), (name, flags))
OF_LIBRARY(ftruncate, (int fd, off_t size), (fd, size))
OF_LIBRARY(munlock, (const void *at, size_t size), (at, size))
OF_LIBRARY(mprotect, (void *at, size_t size, int access), (at, size, access))
OF_LIBRARY(madvise, (void *at, size_t size, int advice), (at, size, advice))

/* ---- processes ---- */

pid_t fork(void) { return is_due("fork", 1) && fails() ? -1 : REAL(fork)(); }
int socketpair(int domain, int type, int protocol, int ends[2]) {
    return is_due("socketpair", 1) && fails() ? -1 : REAL(socketpair)(domain, type, protocol, ends);
}
int pipe2(int ends[2], int flags) { return is_due("pipe2", 1) && fails() ? -1 : REAL(pipe2)(ends, flags); }

/* ---- threads ---- */

struct thread_start {
    void *(*run)(void *);
    void *argument;
};

static void *run_without_first_allocation(void *start) {
    const struct thread_start copy = *(struct thread_start *)start;
    free(start);
    t_fails_next = 1;
    return copy.run(copy.argument);
}

/* "pthread_create": there is no thread. "thread memory": there is one, whose first allocation fails. (Where all fail,
   Python 3.11 handles the first exception for ever, with the GIL.) */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    if (is_due("pthread_create", 1) && fails()) return g_value;
    if (is_due("thread memory", 1)) {
        struct thread_start *start = __libc_malloc(sizeof *start);
        *start = (struct thread_start){run, argument};
        return REAL(pthread_create)(thread, attributes, run_without_first_allocation, start);
    }
    return REAL(pthread_create)(thread, attributes, run, argument);
}
