// The fake runtime and its GPUs for ctypes: fake_cuda/gpu.py.
#include <cxxabi.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

#include "fake_gpu.h"
#include "fake_runtime.h"

namespace {

using fake_cuda::FakeGpu;
using fake_cuda::Handle;

// Returned instead of a result, which is not negative.
constexpr long kInvalidArgument = -1;
constexpr long kKernelFailed = -2;  // whose exception is Python's

struct KernelFailed {};

std::string& problem_of_thread() {
    thread_local std::string problem;
    return problem;
}

template <typename Body>
long result_of(Body body) {
    try {
        return static_cast<long>(body());
    } catch (const KernelFailed&) {
        return kKernelFailed;
    } catch (const std::invalid_argument& error) {
        problem_of_thread() = error.what();
        return kInvalidArgument;
    }
}

template <typename Body>
long done(Body body) {
    return result_of([&] {
        body();
        return 0;
    });
}

FakeGpu& gpu_at(int number) {
    FakeGpu* const gpu = FakeGpu::at(number);
    if (gpu == nullptr) throw std::invalid_argument("no GPU " + std::to_string(number));
    return *gpu;
}

}  // namespace

extern "C" {

// The last one of the calling thread.
const char* fake_problem() { return problem_of_thread().c_str(); }

int fake_add_gpu() { return FakeGpu::add().number(); }

// `kernel` gets `argument` and returns whether it has succeeded.
long fake_enqueue(Handle stream, int (*kernel)(std::size_t argument), std::size_t argument) {
    return done([&] {
        FakeGpu::of(stream).enqueue(stream, [kernel, argument] {
            try {
                if (kernel(argument) == 0) throw KernelFailed();
            } catch (const abi::__forced_unwind&) {
                for (;;) ::pause();  // the interpreter shuts down, and the kernel asked for the GIL
            }
        });
    });
}

long fake_step(Handle stream) {
    return result_of([&] { return FakeGpu::of(stream).step(stream); });
}

long fake_step_any(int gpu, std::uint64_t random) {
    return result_of([&] { return gpu_at(gpu).step_any(random); });
}

long fake_wait_for_work(int gpu, double timeout_seconds) {
    return result_of([&] { return gpu_at(gpu).wait_for_work(timeout_seconds); });
}

long fake_synchronize(Handle stream) {
    return done([&] { FakeGpu::of(stream).synchronize(stream); });
}

long fake_synchronize_all(int gpu) {
    return done([&] { gpu_at(gpu).synchronize_all(); });
}

long fake_num_pending(Handle stream) {
    return result_of([&] { return FakeGpu::of(stream).num_pending(stream); });
}

long fake_num_events(int gpu) {
    return result_of([&] { return gpu_at(gpu).num_events(); });
}

long fake_fail_call(int gpu, const char* function, std::uint64_t n, int error, int is_sticky) {
    return done([&] { gpu_at(gpu).fail_call(function, n, error, is_sticky != 0); });
}

long fake_call_count(int gpu, const char* function) {
    return result_of([&] { return gpu_at(gpu).call_count(function); });
}

void fake_set_versions(int runtime, int driver) { fake_cuda::set_versions(runtime, driver); }

void fake_reset_thread(int device) { fake_cuda::reset_thread(device); }

// Copies as much of the log as there is room for, and a zero after it.
void fake_take_log(char* text, std::size_t size) {
    const std::string log = fake_cuda::take_log();
    const std::size_t length = log.copy(text, size - 1);
    text[length] = '\0';
}

}  // extern "C"
