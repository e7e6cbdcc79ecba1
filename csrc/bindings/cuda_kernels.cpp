// The optional extension module fastload._cuda_kernels. Only fastload/_native.py imports it; fastload/_cuda_kernels.pyi
// types it. It has its own CUDA runtime linked in, so importing it needs neither torch nor a driver.
#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <utility>

#include "cuda/convert_kernels.h"
#include "cuda/decode_kernels.h"
#include "python/without_gil.h"

namespace fastload {
namespace {

// The error's number and name; 0 is success.
using Result = std::pair<int, const char*>;

Result result_of(const DeviceStatus& status) { return {status.error, status.name}; }

// Without the GIL: the driver may be busy loading code, or the stream may be full.
Result load(int device) {
    return without_gil([&] {
        const DeviceStatus status = load_convert_kernels(device);
        return result_of(status.is_ok() ? load_decode_kernels(device) : status);
    });
}

Result convert(std::uintptr_t pixels, std::uintptr_t table, std::uintptr_t out, std::uint64_t batch,
               std::uint64_t pixels_per_image, int element_size, bool channels_last, int device, StreamId stream) {
    BatchConversion conversion;
    conversion.pixels = reinterpret_cast<const std::uint8_t*>(pixels);
    conversion.table = reinterpret_cast<const void*>(table);
    conversion.out = reinterpret_cast<void*>(out);
    conversion.images = batch;
    conversion.pixels_per_image = pixels_per_image;
    conversion.element_size_bytes = element_size;
    conversion.channels_last = channels_last;
    return without_gil([&] { return result_of(launch_convert(conversion, device, stream)); });
}

// Queues a batch whose wire is at two addresses, on the host and on the device.
Result decode(std::uintptr_t host_wire, std::uintptr_t wire, std::uintptr_t scratch, std::uintptr_t pixels,
              std::uintptr_t faults, std::uint32_t samples, std::uint64_t pixel_bytes, int device, StreamId stream) {
    DecodeBatch batch;
    batch.host_wire = reinterpret_cast<const std::uint8_t*>(host_wire);
    batch.wire = reinterpret_cast<const std::uint8_t*>(wire);
    batch.scratch = reinterpret_cast<std::uint8_t*>(scratch);
    batch.pixels = reinterpret_cast<std::uint8_t*>(pixels);
    batch.faults = reinterpret_cast<std::uint32_t*>(faults);
    batch.pixel_bytes = pixel_bytes;
    batch.num_samples = samples;
    return without_gil([&] { return result_of(launch_decode(batch, device, stream)); });
}

std::string cuda_version() {
    const int version = convert_kernels_cuda_version();
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace
}  // namespace fastload

PYBIND11_MODULE(_cuda_kernels, module) {
    namespace py = pybind11;
    module.doc() = "The CUDA kernels of fastload. Private: import fastload instead.";
    module.attr("cuda_version") = fastload::cuda_version();
    module.def("load", &fastload::load, py::arg("device"));
    module.def("convert", &fastload::convert, py::kw_only(), py::arg("pixels"), py::arg("table"), py::arg("out"),
               py::arg("batch"), py::arg("pixels_per_image"), py::arg("element_size"), py::arg("channels_last"),
               py::arg("device"), py::arg("stream"));
    module.def("decode", &fastload::decode, py::kw_only(), py::arg("host_wire"), py::arg("wire"), py::arg("scratch"),
               py::arg("pixels"), py::arg("faults"), py::arg("samples"), py::arg("pixel_bytes"), py::arg("device"),
               py::arg("stream"));
}
