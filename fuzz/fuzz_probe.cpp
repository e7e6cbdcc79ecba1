// probe() on arbitrary bytes, whole and cut short.
#include <cstddef>
#include <cstdint>

#include "codec/probe.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace fastload;
    const ImageInfo info = probe({data, size});
    if (info.size.width < 0 || info.size.height < 0) __builtin_trap();
    const std::size_t shorter = size == 0 ? 0 : data[size - 1] % size;
    const ImageInfo start = probe({data, shorter});
    if (start.size.width < 0 || *format_name(start.format) == '\0') __builtin_trap();
    return 0;
}
