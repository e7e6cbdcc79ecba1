// The extension module fastload._core: its parts, the metadata of this binary, and objects that the parts share. Only
// fastload/_native.py imports it; fastload/_core.pyi types it.
#include <time.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "base/checked_math.h"
#include "bindings/bindings.h"
#include "bindings/gil_turns.h"
#include "engine/deferred_releases.h"
#include "kernels/dispatch.h"

#define FASTLOAD_STRINGIFY_TOKEN(token) #token
#define FASTLOAD_STRINGIFY(macro) FASTLOAD_STRINGIFY_TOKEN(macro)

namespace py = pybind11;

namespace fastload {
namespace {

// The version of the running code, even if Python files and an older binary disagree. The build passes it as a bare
// token.
constexpr const char* kVersion = FASTLOAD_STRINGIFY(FASTLOAD_VERSION);

#if defined(__clang__)
constexpr const char* kCompiler = "Clang " FASTLOAD_STRINGIFY(__clang_major__) "." FASTLOAD_STRINGIFY(
    __clang_minor__) "." FASTLOAD_STRINGIFY(__clang_patchlevel__);
#else
constexpr const char* kCompiler = "GCC " __VERSION__;
#endif

// Names the tables that can run here, best first.
std::string join_table_names() {
    std::string names;
    for (const KernelTable* table : runnable_kernel_tables())
        names += (names.empty() ? "" : ", ") + std::string(table->name);
    return names;
}

std::string active_table_name() { return active_kernel_table().name; }

// Long enough for a thread that waits for the GIL to take it.
constexpr timespec kPause = {0, 50'000};

// Releases the GIL for a moment; returns how long it then took to get it back, its turn included. The time is taken
// after the pause, so that the scheduler's delay of the pause does not count.
double gil_wait_seconds() {
    using Clock = std::chrono::steady_clock;
    const auto pause = [] {
        ::nanosleep(&kPause, nullptr);
        return Clock::now();
    };
    const Clock::time_point woken = gil_turn ? between_turns(pause) : without_gil(pause);
    return std::chrono::duration<double>(Clock::now() - woken).count();
}

using Token = DeferredReleases::Token;

// The process's list, null before the first token. Touched only under the GIL; a forked child starts a new one. Never
// destroyed: threads may outlive the module.
std::shared_ptr<DeferredReleases>& known_list() {
    alignas(std::shared_ptr<DeferredReleases>) static std::byte memory[sizeof(std::shared_ptr<DeferredReleases>)];
    static auto* list = new (memory) std::shared_ptr<DeferredReleases>();
    return *list;
}

std::shared_ptr<DeferredReleases> deferred_releases() {
    std::shared_ptr<DeferredReleases>& list = known_list();
    if (list == nullptr || list->is_forked()) list = std::make_shared<DeferredReleases>();
    return list;
}

}  // namespace

const KernelTable& active_kernel_table() {
    const KernelTable* table = select_kernel_table();
    if (table != nullptr) return *table;
    throw py::value_error(std::string("FASTLOAD_SIMD must name a kernel table that this build and processor ") +
                          "have (" + join_table_names() + "), got '" + requested_kernel_table() +
                          "'. Unset it to take the best one.");
}

std::shared_ptr<void> make_token(py::object object) {
    const auto leave_in_list = [list = deferred_releases()](Token* token) noexcept { list->add(token); };
    auto token = std::make_unique<Token>();
    token->object = object.release().ptr();
    return {token.release(), leave_in_list};
}

py::object object_of(const std::shared_ptr<void>& token) {
    return py::reinterpret_borrow<py::object>(static_cast<PyObject*>(static_cast<Token*>(token.get())->object));
}

void run_deferred_releases() noexcept {
    const std::shared_ptr<DeferredReleases>& list = known_list();
    Token* token = list == nullptr ? nullptr : list->take_all();
    while (token != nullptr) {
        const std::unique_ptr<Token> released(std::exchange(token, token->next));
        py::handle(static_cast<PyObject*>(released->object)).dec_ref();
    }
}

ByteSpan span_of(const py::bytes& data) {
    const auto view = static_cast<std::string_view>(data);
    return {reinterpret_cast<const std::uint8_t*>(view.data()), view.size()};
}

py::bytes bytes_of(ByteSpan bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

PackedImageView view_packed(const py::buffer& pixels, std::int32_t width, std::int32_t height) {
    const py::buffer_info info = pixels.request();
    std::size_t expected = 0;
    if (width <= 0 || height <= 0 ||
        !checked_multiply(static_cast<std::size_t>(width) * 3, static_cast<std::size_t>(height), &expected) ||
        static_cast<std::size_t>(info.size * info.itemsize) != expected ||
        PyBuffer_IsContiguous(info.view(), 'C') == 0) {
        throw py::value_error("pixels must hold width * height * 3 bytes, one after the other");
    }
    return {static_cast<const std::uint8_t*>(info.ptr), static_cast<std::size_t>(width) * 3, width, height};
}

void throw_os_error(int error) {
    errno = error;
    PyErr_SetFromErrno(PyExc_OSError);
    throw py::error_already_set();
}

py::dict describe_failure(const Status& status) {
    py::dict fields;
    fields["stage"] = stage_name(stage_of(status.code));
    fields["errno"] = status.system_errno;
    fields["offset"] = status.byte_offset;
    fields["text"] = status_text(status.code);
    fields["detail"] = status.detail;
    fields["is_out_of_memory"] = status.code == StatusCode::kOutOfMemory;
    fields["exception"] = py::none();
    return fields;
}

}  // namespace fastload

PYBIND11_MODULE(_core, module) {
    using namespace fastload;
    if (const KernelTable* table = select_kernel_table()) use_block_sums(table->block_sums);
    module.doc() = "The native part of fastload. Private: import fastload instead.";
    module.attr("version") = kVersion;
    module.attr("compiler") = kCompiler;
    module.attr("cxx_standard") = static_cast<long>(__cplusplus);
    module.def("available_kernel_tables", &join_table_names);
    module.def("active_kernel_table", &active_table_name);
    module.def("gil_wait_seconds", &gil_wait_seconds);
    bind_device(module);
    bind_generators(module);
    bind_steps(module);
    bind_draws(module);
    bind_sources(module);
    bind_iteration(module);
    bind_interrupts(module);
    bind_messages(module);
    bind_cache(module);
    bind_codec(module);
    bind_engine(module);
    bind_decoders(module);
    bind_images(module);
    bind_arena(module);
    bind_worker_forks(module);
    guard_calls(module, "active_kernel_table");
}
