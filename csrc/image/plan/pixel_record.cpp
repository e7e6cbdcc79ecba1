#include "image/plan/pixel_record.h"

#include <cstring>

#include "image/plan/image_sides.h"

namespace fastload {
namespace {

struct PixelHead {
    RecordStamp stamp = {};
    std::int32_t source_width = 0;
    std::int32_t source_height = 0;
    std::int32_t width = 0;
    std::int32_t height = 0;
    std::uint8_t reserved[32] = {};  // 0
    std::uint64_t sum = 0;           // of the planes
    std::uint64_t check = 0;         // of everything before it
};
static_assert(sizeof(PixelHead) == 128);
static_assert(sizeof(PixelHead) % AlignedBuffer::kAlignment == 0);
static_assert(offsetof(PixelHead, check) == sizeof(PixelHead) - sizeof(std::uint64_t));

std::uint64_t check_of(const PixelHead& head, const HashKey& key, std::uint64_t salt) {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&head);
    return content_sum(key, {bytes, offsetof(PixelHead, check)}) ^ salt;
}

}  // namespace

std::size_t pixel_bytes(ImageSize size) noexcept {
    return std::size_t{3} * static_cast<std::size_t>(size.width) * static_cast<std::size_t>(size.height);
}

std::size_t pixel_record_bytes(ImageSize size) noexcept { return sizeof(PixelHead) + pixel_bytes(size); }

PlanarImageView planes_at(std::uint8_t* pixels, ImageSize size) noexcept {
    const std::size_t plane_bytes = pixel_bytes(size) / 3;
    return {{pixels, pixels + plane_bytes, pixels + 2 * plane_bytes},
            static_cast<std::size_t>(size.width),
            size.width,
            size.height};
}

std::uint8_t* PixelRecordWriter::begin(ImageSize size, ImageSize source_size) noexcept {
    if (!buffer_.reserve(pixel_record_bytes(size)).is_ok()) return nullptr;
    image_ = planes_at(buffer_.data() + sizeof(PixelHead), size);
    source_size_ = source_size;
    return image_.planes[0];
}

ByteSpan PixelRecordWriter::finish(const HashKey& key, std::uint64_t salt, const RecordStamp& stamp) noexcept {
    const std::size_t size = pixel_record_bytes({image_.width, image_.height});
    if (size > kMaxPixelRecordBytes) return {};
    PixelHead head;
    head.stamp = stamp;
    head.source_width = source_size_.width;
    head.source_height = source_size_.height;
    head.width = image_.width;
    head.height = image_.height;
    const ByteSpan record = {buffer_.data(), size};
    head.sum = content_sum(key, record.subspan(sizeof head, size - sizeof head));
    head.check = check_of(head, key, salt);
    std::memcpy(buffer_.data(), &head, sizeof head);
    return record;
}

std::uint8_t* PixelRecordReader::reserve(std::size_t size) noexcept {
    if (!buffer_.reserve(size).is_ok()) return nullptr;
    size_ = size;
    return buffer_.data();
}

Status PixelRecordReader::open(const HashKey& key, std::uint64_t salt, std::uint64_t max_pixels) noexcept {
    constexpr Status kNoRecord = Status::irregular("the check of a pixel record does not hold", 0);
    PixelHead head;
    if (size_ < sizeof head) return kNoRecord;
    std::memcpy(&head, buffer_.data(), sizeof head);
    if (head.check != check_of(head, key, salt)) return kNoRecord;
    const ImageSize size = {head.width, head.height};
    const LongSize source(head.source_width, head.source_height);
    if (!LongSize(size).is_possible() || !source.is_possible() || size_ != pixel_record_bytes(size)) return kNoRecord;
    const ByteSpan planes = {buffer_.data() + sizeof head, size_ - sizeof head};
    if (head.sum != content_sum(key, planes)) {
        return Status::irregular("the sum of a pixel record does not hold", 0);
    }
    if (static_cast<std::uint64_t>(source.width) * static_cast<std::uint64_t>(source.height) > max_pixels) {
        return {StatusCode::kLimitExceeded, 0, 0, "the image has too many pixels"};
    }
    source_size_ = {head.source_width, head.source_height};
    stamp_ = head.stamp;
    image_ = planes_at(buffer_.data() + sizeof head, size);
    return Status::ok();
}

}  // namespace fastload
