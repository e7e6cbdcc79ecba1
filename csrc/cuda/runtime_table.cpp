#include "cuda/runtime_table.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace fastload {
namespace {

constexpr int kOldestMajor = 12;
constexpr int kNewestMajor = 13;

// CUDA writes 12.4 as 12040.
std::string version_text(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

const char* base_name(const char* path) {
    const char* const slash = std::strrchr(path, '/');
    return slash == nullptr ? path : slash + 1;
}

// For dl_iterate_phdr: collects the paths of loaded CUDA runtimes, even if their files were renamed.
int collect_runtime(dl_phdr_info* object, std::size_t, void* paths) {
    const char* const name = base_name(object->dlpi_name);
    const bool is_runtime = std::strncmp(name, "libcudart", 9) == 0 && std::strstr(name, ".so") != nullptr;
    if (is_runtime) static_cast<std::vector<std::string>*>(paths)->push_back(object->dlpi_name);
    return 0;
}

// The names to open, most likely first.
std::vector<std::string> loaded_runtimes(int major) {
    std::vector<std::string> names = {"libcudart.so." + std::to_string(major)};
    dl_iterate_phdr(collect_runtime, &names);
    return names;
}

template <typename Function>
bool find(void* library, const char* symbol, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(library, symbol));
    return *function != nullptr;
}

// The name of the first function that is missing, or null.
const char* fill(void* library, CudaRuntime* table) {
    const char* missing = nullptr;
    const auto get = [&](const char* symbol, auto* function) {
        if (!find(library, symbol, function) && missing == nullptr) missing = symbol;
    };
    get("cudaRuntimeGetVersion", &table->runtime_get_version);
    get("cudaDriverGetVersion", &table->driver_get_version);
    get("cudaGetDeviceCount", &table->get_device_count);
    get("cudaGetDevice", &table->get_device);
    get("cudaSetDevice", &table->set_device);
    get("cudaThreadExchangeStreamCaptureMode", &table->thread_exchange_stream_capture_mode);
    get("cudaEventCreateWithFlags", &table->event_create_with_flags);
    get("cudaEventDestroy", &table->event_destroy);
    get("cudaEventRecord", &table->event_record);
    get("cudaEventQuery", &table->event_query);
    get("cudaMemcpyAsync", &table->memcpy_async);
    get("cudaGetErrorName", &table->get_error_name);
    get("cudaGetErrorString", &table->get_error_string);
    get("cudaGetLastError", &table->get_last_error);
    return missing;
}

int version_of(const CudaRuntime& runtime) {
    int version = 0;
    return runtime.runtime_get_version(&version) == 0 ? version : 0;
}

std::string runtime_text(const CudaRuntime& runtime) { return "CUDA runtime " + version_text(version_of(runtime)); }

std::string old_driver_sentence(const CudaRuntime& runtime) {
    int driver = 0;
    if (runtime.driver_get_version(&driver) != 0) driver = 0;
    const std::string newer = version_text(version_of(runtime));
    if (driver == 0) {
        return "torch brings " + runtime_text(runtime) +
               ", but no NVIDIA driver (libcuda.so.1) can be used here. Install the driver for CUDA " + newer +
               ", in a container start it with its GPUs, or leave out device=.";
    }
    const int driver_major = driver / 1000;
    return "torch brings " + runtime_text(runtime) + ", but the NVIDIA driver is older: it runs CUDA up to " +
           version_text(driver) + ". Install a newer driver" +
           (driver_major >= kOldestMajor ? ", or a torch built for CUDA " + std::to_string(driver_major) : "") + ".";
}

}  // namespace

std::string find_cuda_runtime(int major, CudaRuntime* table) {
    if (major < kOldestMajor || major > kNewestMajor) {
        return "torch is built for CUDA " + std::to_string(major) +
               ", and this version of fastload knows CUDA 12 and 13. Install a torch built for one of these.";
    }
    std::vector<void*> seen;
    std::string others;
    for (const std::string& name : loaded_runtimes(major)) {
        // Never closed: the runtime must stay as long as the table, which lives as long as the process.
        void* const library = dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
        if (library == nullptr || std::find(seen.begin(), seen.end(), library) != seen.end()) continue;
        seen.push_back(library);
        CudaRuntime found;
        if (const char* const missing = fill(library, &found)) {
            others += (others.empty() ? "" : ", ") + name + " (without " + missing + ")";
            continue;
        }
        if (version_of(found) / 1000 == major) {
            *table = found;
            return "";
        }
        others += (others.empty() ? "" : ", ") + name + " (" + version_text(version_of(found)) + ")";
    }
    const std::string wanted = "No CUDA " + std::to_string(major) + " runtime is loaded in this process";
    if (others.empty()) {
        return wanted + " (libcudart.so." + std::to_string(major) +
               "), though torch is built for it. Install a torch that brings the shared runtime, as the wheels do.";
    }
    return wanted + ", only " + others + ", though torch is built for it. Check that LD_PRELOAD and LD_LIBRARY_PATH " +
           "name no other CUDA.";
}

void find_cuda_driver(CudaRuntime* table) {
    void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (driver != nullptr) find(driver, "cuDevicePrimaryCtxGetState", &table->primary_context_get_state);
}

std::string check_cuda_device(const CudaRuntime& runtime, int device) {
    int count = 0;
    const int error = runtime.get_device_count(&count);
    if (error != 0) static_cast<void>(runtime.get_last_error());
    if (error == kCudaErrorInsufficientDriver) return old_driver_sentence(runtime);
    if (error == kCudaErrorNoDevice || (error == 0 && count == 0)) {
        return runtime_text(runtime) +
               " finds no GPU. Check nvidia-smi and CUDA_VISIBLE_DEVICES, or leave out device=.";
    }
    if (error != 0) {
        return runtime_text(runtime) + " cannot count the GPUs: " + runtime.get_error_name(error) + " (" +
               runtime.get_error_string(error) + "). Check nvidia-smi.";
    }
    if (device >= 0 && device < count) return "";
    return "cuda:" + std::to_string(device) + " is not there: " + runtime_text(runtime) + " finds " +
           (count == 1 ? std::string("one GPU, cuda:0")
                       : std::to_string(count) + " GPUs, cuda:0 to cuda:" + std::to_string(count - 1)) +
           ". Name one of these, or check CUDA_VISIBLE_DEVICES.";
}

}  // namespace fastload
