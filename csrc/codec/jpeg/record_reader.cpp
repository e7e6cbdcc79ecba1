#include "codec/jpeg/record_reader.h"

#include <algorithm>

#include "kernels/coefficients.h"

namespace fastload::jpeg {
namespace {

constexpr Status kUnread = {StatusCode::kReadFailed, 0, 0, "a coefficient record cannot be read"};

// Reads from the beginning of a record of `record_bytes`.
Status find_head_bytes(ByteSpan beginning, std::uint64_t record_bytes, const DecodeLimits& limits,
                       std::size_t* head_bytes) noexcept {
    const Status status = CoefficientRecord::find_head_bytes(beginning, limits, head_bytes);
    if (!status.is_ok() || *head_bytes <= record_bytes) return status;
    return Status::irregular("a coefficient record is cut short", 0);
}

}  // namespace

Status RecordReader::open(RecordBytes* bytes, const HashKey& key, std::uint64_t salt, const DecodeLimits& limits,
                          ReadPart part) noexcept {
    bytes_ahead_ = 0;
    ByteSpan head;
    const Status status = part == ReadPart::kAll ? read_all(bytes, limits, &head) : read_head(bytes, limits, &head);
    return status.is_ok() ? record_.open(head, key, salt, limits) : status;
}

Status RecordReader::read_head(RecordBytes* bytes, const DecodeLimits& limits, ByteSpan* head) noexcept {
    const auto first_bytes =
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes->size(), CoefficientRecord::kFirstBytes));
    Status status = head_buffer_.reserve(CoefficientRecord::kFirstBytes);
    if (!status.is_ok()) return status;
    if (!bytes->read(0, {head_buffer_.data(), first_bytes})) return kUnread;
    std::size_t head_bytes = 0;
    status = find_head_bytes({head_buffer_.data(), first_bytes}, bytes->size(), limits, &head_bytes);
    if (!status.is_ok()) return status;
    if (head_bytes > first_bytes) {
        status = head_buffer_.reserve(head_bytes);
        if (!status.is_ok()) return status;
        if (!bytes->read(0, {head_buffer_.data(), head_bytes})) return kUnread;
    }
    *head = {head_buffer_.data(), head_bytes};
    return Status::ok();
}

Status RecordReader::read_all(RecordBytes* bytes, const DecodeLimits& limits, ByteSpan* head) noexcept {
    if (const Status status = fill_row_buffer(bytes, 0, bytes->size()); !status.is_ok()) return status;
    const ByteSpan record(row_buffer_.data(), static_cast<std::size_t>(bytes->size()));
    std::size_t head_bytes = 0;
    const Status status = find_head_bytes(record, record.size(), limits, &head_bytes);
    if (!status.is_ok()) return status;
    *head = record.subspan(0, head_bytes);
    bytes_ahead_ = record.size();
    return Status::ok();
}

Status RecordReader::fill_row_buffer(RecordBytes* bytes, std::uint64_t offset, std::uint64_t size) noexcept {
    const auto length = static_cast<std::size_t>(size);
    if (const Status status = row_buffer_.reserve(length + kPackedSlackBytes); !status.is_ok()) return status;
    return bytes->read(offset, {row_buffer_.data(), length}) ? Status::ok() : kUnread;
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
    const bool is_ahead = bytes_ahead_ != 0;
    if (!is_ahead) {
        if (const Status status = fill_row_buffer(bytes, rows_.offset, rows_.bytes); !status.is_ok()) return status;
    }
    row_bytes_ = {row_buffer_.data() + (is_ahead ? rows_.offset : 0), static_cast<std::size_t>(rows_.bytes)};
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
