#include "engine/sample/coefficient_builder.h"

#include <cstring>
#include <vector>

namespace fastload {

CoefficientBuilder::CoefficientBuilder(const KernelTable& kernels, const NativeWorkerOptions& options)
    : cache_(options.cache),
      coefficients_(*cache_->coefficients()),
      limits_(options.decode_limits),
      max_file_bytes_(options.max_file_bytes),
      decoder_(kernels, options.decode_limits),
      writer_(kernels) {}

// Reads the file and makes its coefficients, so that only writer_.finish() is left where *outcome is kAbsent.
Status CoefficientBuilder::make(ByteSpan path, ByteSpan* contents, BuildOutcome* outcome) noexcept {
    *outcome = BuildOutcome::kUnread;
    const std::int64_t opened_ns = system_time_ns();
    if (const Status status = reader_.read(path, max_file_bytes_, contents); !status.is_ok()) return status;
    file_.note_read(reader_.facts(), opened_ns);
    *outcome = BuildOutcome::kNone;
    ImageInfo info;
    Status status = decoder_.read_header(*contents, &info);
    if (status.is_ok()) status = decoder_.read_coefficients(&writer_);
    if (status.is_ok()) *outcome = BuildOutcome::kAbsent;
    return status.code == StatusCode::kOutOfMemory ? status : Status::ok();
}

// Whether the file's record is there; then it has been opened.
bool CoefficientBuilder::find(ByteSpan path) noexcept {
    FileFacts facts;
    return file_.begin(coefficients_, path, nullptr, {}) && coefficients_.find_facts(path, nullptr, &facts) &&
           file_.find(coefficients_, facts, {}, limits_);
}

Status CoefficientBuilder::build(ByteSpan path, BuildOutcome* outcome) noexcept {
    if (find(path)) {
        *outcome = BuildOutcome::kKnown;
        return Status::ok();
    }
    ByteSpan contents;
    const Status status = make(path, &contents, outcome);
    if (!status.is_ok() || *outcome != BuildOutcome::kAbsent) return status;
    const FileVersion& version = file_.version();
    if (!file_.has_key() || !coefficients_.is_settled(version, file_.opened_ns())) {
        *outcome = BuildOutcome::kTooNew;
    } else {
        const ByteSpan record = writer_.finish(coefficients_.key(), coefficients_.salt_of(version),
                                               coefficients_.stamp_of(version, contents));
        *outcome = coefficients_.put(version, record) ? BuildOutcome::kKept : BuildOutcome::kNotKept;
    }
    return Status::ok();
}

Status CoefficientBuilder::compare(ByteSpan path, BuildOutcome* outcome) noexcept {
    const bool is_there = find(path);
    std::vector<std::uint8_t> record;
    const bool is_read = is_there && file_.read_all(&record);
    ByteSpan contents;
    const Status status = make(path, &contents, outcome);
    if (!status.is_ok() || !is_there) return status;
    const FileVersion& version = file_.version();
    const ByteSpan made =
        writer_.finish(coefficients_.key(), coefficients_.salt_of(version), coefficients_.stamp_of(version, contents));
    const bool is_same = *outcome == BuildOutcome::kAbsent && is_read && record.size() == made.size() &&
                         std::memcmp(record.data(), made.data(), made.size()) == 0;
    *outcome = is_same ? BuildOutcome::kKnown : BuildOutcome::kDifferent;
    return Status::ok();
}

}  // namespace fastload
