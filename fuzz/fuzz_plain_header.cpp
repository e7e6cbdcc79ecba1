// read_plain_header() on arbitrary bytes.
#include <cstddef>
#include <cstdint>

#include "codec/jpeg/plain_header.h"

namespace {

// A plain header lies in the bytes, and is also the header of any longer beginning of them.
void check_plain_header(fastload::ByteSpan bytes) {
    using namespace fastload;
    jpeg::PlainHeader header;
    if (!jpeg::read_plain_header(bytes, &header)) return;
    if (header.end > bytes.size() || header.size.width < 1 || header.size.height < 1) __builtin_trap();
    for (int i = 0; i < header.segment_count; ++i) {
        const jpeg::Segment& segment = header.segments[i];
        if (segment.end > header.end || segment.payload.end() > bytes.data() + header.end) __builtin_trap();
    }
    jpeg::PlainHeader again;
    if (!jpeg::read_plain_header(bytes.subspan(0, header.end), &again) || again.end != header.end) __builtin_trap();
    if (jpeg::read_plain_header(bytes.subspan(0, header.end - 1), &again)) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    check_plain_header({data, size});
    return 0;
}
