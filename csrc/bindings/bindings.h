// The parts of the extension module, and code that they share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/image_view.h"
#include "base/span.h"
#include "base/status.h"
#include "bindings/pybind.h"
#include "kernels/kernel_table.h"

namespace fastload {

class DecodeCache;
class EngineCore;
class Iteration;
class OperationList;
class SampleIndex;
struct HashKey;
struct NativeWorkerOptions;

// Each function adds one part to the module. It is in the file named after it, or in the one named here.
void bind_device(pybind11::module_& m);
void bind_generators(pybind11::module_& m);
void bind_steps(pybind11::module_& m);
void bind_draws(pybind11::module_& m);  // after bind_steps()
void bind_sources(pybind11::module_& m);
void bind_iteration(pybind11::module_& m);
void bind_interrupts(pybind11::module_& m);
void bind_messages(pybind11::module_& m);
void bind_cache(pybind11::module_& m);
void bind_codec(pybind11::module_& m);
void bind_engine(pybind11::module_& m);    // after bind_cache()
void bind_decoders(pybind11::module_& m);  // bind_engine.cpp
void bind_images(pybind11::module_& m);
void bind_arena(pybind11::module_& m);  // after bind_engine()
void bind_worker_forks(pybind11::module_& m);

// Call last: from then on every function of the module raises MemoryError when memory runs out. `any_function` is one
// of them.
void guard_calls(pybind11::module_& m, const char* any_function);  // call_guard.cpp

// Throws OSError, or a subclass, for an error number.
[[noreturn]] void throw_os_error(int error);

// The kernel table of this process. Throws pybind11::value_error, with the value and the allowed ones, if the
// environment variable FASTLOAD_SIMD names no table of this build and processor.
const KernelTable& active_kernel_table();

// Python objects owned by native code, which may release them in any thread. A token keeps `object` alive; see
// Note [tokens]. Call with the GIL; the result may be dropped without it. A forked child leaks its parent's tokens.
std::shared_ptr<void> make_token(pybind11::object object);
// The object of a token.
pybind11::object object_of(const std::shared_ptr<void>& token);
// Releases the objects whose last token is gone. Call with the GIL; runs their finalizers.
void run_deferred_releases() noexcept;

// A view of `data`, and one of `pixels`, height * width * 3 bytes of interleaved RGB; they last as long as the buffer.
// Throws pybind11::value_error if the buffer has another form.
ByteSpan span_of(const pybind11::bytes& data);
PackedImageView view_packed(const pybind11::buffer& pixels, std::int32_t width, std::int32_t height);
pybind11::bytes bytes_of(ByteSpan bytes);  // a copy

// Makes a key from STORE_KEY_BYTES bytes. Throws std::invalid_argument for another number of bytes.
std::unique_ptr<const HashKey> hash_key_of(const pybind11::bytes& key);

// Throws pybind11::index_error for an index outside of [0, num_samples()). The path of a sample is checked so, too.
void check_index(const SampleIndex& index, std::int64_t sample_index);
pybind11::bytes path_of(const SampleIndex& index, std::int64_t sample_index);

// The steps applied to a sample for one view, in the form of SampleReport.views.
pybind11::list list_reports(const OperationList& operations);
// The reason why a sample could not be made, as SampleFailure in fastload/_core.pyi, still without position and path.
pybind11::dict describe_failure(const Status& status);

// The purpose of a worker.
NativeWorkerOptions options_of(std::uint64_t max_file_bytes, std::uint64_t max_pixels, bool is_native_jpeg_allowed,
                               std::shared_ptr<DecodeCache> cache = nullptr);

// Throws std::runtime_error in a forked child of the process that made `core`.
void check_process(const EngineCore& core);
// The Python object of a new iteration.
pybind11::object make_iteration_object(std::unique_ptr<Iteration> iteration);
// The Python object HostBuffer.
pybind11::object make_host_buffer(SharedBytes memory);
// Waits for a sample that needs the reference decoder. Returns a FallbackTask, or None once the engine is closed. If
// there is no memory for the task, its sample fails.
pybind11::object next_fallback(EngineCore& core);

}  // namespace fastload
