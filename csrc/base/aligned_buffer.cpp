#include "base/aligned_buffer.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/checked_math.h"

namespace fastload {
namespace {

// Memory is released after kPatience samples in a row that needed at most 1 / kSmallPart of it. If large and small
// images alternate, getting it anew each time would cost more than it saves.
constexpr std::size_t kSmallPart = 4;
constexpr std::uint32_t kPatience = 8;

}  // namespace

void AlignedBuffer::AlignedDelete::operator()(std::uint8_t* bytes) const noexcept {
    ::operator delete(bytes, std::align_val_t{kAlignment});
}

Status AlignedBuffer::reserve(std::size_t size) noexcept {
    needed_ = std::max(needed_, size);
    if (size <= capacity_) return Status::ok();
    // A quarter of headroom: image sizes vary, and growing by bytes would fault new pages for every slightly larger
    // one.
    std::size_t rounded = 0;
    if (!checked_add(size, size / 4, &rounded) || !checked_round_up(rounded, 4096, &rounded)) {
        return {StatusCode::kOutOfMemory, 0, 0, "a scratch buffer size overflows"};
    }
    constexpr Status kNoMemory = {StatusCode::kOutOfMemory, 0, 0, "no memory for a scratch buffer"};
    if (rounded > kMaxKeptBytes) {
        Mapping mapping = Mapping::create(rounded);
        if (mapping.data() == nullptr) return kNoMemory;
        mapping_ = std::move(mapping);
        bytes_.reset();
        capacity_ = mapping_.size();
        return Status::ok();
    }
    void* bytes = ::operator new(rounded, std::align_val_t{kAlignment}, std::nothrow);
    if (bytes == nullptr) return kNoMemory;
    bytes_.reset(static_cast<std::uint8_t*>(bytes));
    capacity_ = rounded;
    return Status::ok();
}

void AlignedBuffer::release(ScratchRule rule) noexcept {
    const bool is_unneeded = needed_ < capacity_ / kSmallPart;
    needed_ = 0;
    num_unneeded_ = is_unneeded ? num_unneeded_ + 1 : 0;
    if (!is_mapped() || (rule == ScratchRule::kUnneeded && num_unneeded_ < kPatience)) return;
    mapping_ = Mapping();
    capacity_ = 0;
    num_unneeded_ = 0;
}

}  // namespace fastload
