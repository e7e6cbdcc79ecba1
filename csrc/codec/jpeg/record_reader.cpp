#include "codec/jpeg/record_reader.h"

#include <algorithm>

#include "kernels/coefficients.h"

namespace fastload::jpeg {
namespace {

constexpr Status kUnread = {StatusCode::kReadFailed, 0, 0, "a coefficient record cannot be read"};

}  // namespace

Status RecordReader::open(RecordBytes* bytes, const HashKey& key, std::uint64_t salt,
                          const DecodeLimits& limits) noexcept {
    const auto first_bytes =
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes->size(), CoefficientRecord::kFirstBytes));
    Status status = head_buffer_.reserve(CoefficientRecord::kFirstBytes);
    if (!status.is_ok()) return status;
    if (!bytes->read(0, {head_buffer_.data(), first_bytes})) return kUnread;
    std::size_t head_bytes = 0;
    status = CoefficientRecord::find_head_bytes({head_buffer_.data(), first_bytes}, limits, &head_bytes);
    if (!status.is_ok()) return status;
    if (head_bytes > bytes->size()) return Status::irregular("a coefficient record is cut short", 0);
    if (head_bytes > first_bytes) {
        status = head_buffer_.reserve(head_bytes);
        if (!status.is_ok()) return status;
        if (!bytes->read(0, {head_buffer_.data(), head_bytes})) return kUnread;
    }
    return record_.open({head_buffer_.data(), head_bytes}, key, salt, limits);
}

Status RecordReader::find_rows(std::uint64_t record_bytes, const Region& region) noexcept {
    if (!record_.find_rows(region, &rows_) || rows_.offset + rows_.bytes > record_bytes) {
        return Status::irregular("a coefficient record is cut short", 0);
    }
    return Status::ok();
}

Status RecordReader::view_rows(ByteSpan record, const Region& region) noexcept {
    const Status status = find_rows(record.size(), region);
    if (status.is_ok()) {
        row_bytes_ = record.subspan(static_cast<std::size_t>(rows_.offset), static_cast<std::size_t>(rows_.bytes));
    }
    return status;
}

Status RecordReader::read_rows(RecordBytes* bytes, const HashKey& key, const Region& region) noexcept {
    if (const Status status = find_rows(bytes->size(), region); !status.is_ok()) return status;
    const auto size = static_cast<std::size_t>(rows_.bytes);
    if (const Status status = row_buffer_.reserve(size + kPackedSlackBytes); !status.is_ok()) return status;
    if (!bytes->read(rows_.offset, {row_buffer_.data(), size})) return kUnread;
    row_bytes_ = {row_buffer_.data(), size};
    if (!record_.holds(rows_, row_bytes(), key)) {
        return Status::irregular("the sum of a coefficient record's row does not hold", 0);
    }
    return Status::ok();
}

void RecordReader::release_scratch(ScratchRule rule) noexcept {
    head_buffer_.release(rule);
    row_buffer_.release(rule);
}

}  // namespace fastload::jpeg
