#include "base/aligned_buffer.h"

#include <new>

#include "base/checked_math.h"

namespace fastload {

void AlignedBuffer::AlignedDelete::operator()(std::uint8_t* bytes) const noexcept {
    ::operator delete(bytes, std::align_val_t{kAlignment});
}

Status AlignedBuffer::reserve(std::size_t size) noexcept {
    if (size <= capacity_) return Status::ok();
    // A quarter of headroom: image sizes vary, and growing by bytes would fault new pages for every slightly larger
    // one.
    std::size_t rounded = 0;
    if (!checked_add(size, size / 4, &rounded) || !checked_round_up(rounded, 4096, &rounded)) {
        return {StatusCode::kOutOfMemory, 0, 0, "a scratch buffer size overflows"};
    }
    void* bytes = ::operator new(rounded, std::align_val_t{kAlignment}, std::nothrow);
    if (bytes == nullptr) return {StatusCode::kOutOfMemory, 0, 0, "no memory for a scratch buffer"};
    bytes_.reset(static_cast<std::uint8_t*>(bytes));
    capacity_ = rounded;
    return Status::ok();
}

}  // namespace fastload
