// Makes the records of files, and compares those that are there with their files.
#pragma once

#include <cstdint>
#include <memory>

#include "base/image_view.h"
#include "base/span.h"
#include "base/status.h"
#include "engine/cache/built_records.h"
#include "engine/cache/record_build.h"
#include "engine/sample/native_sample_worker.h"
#include "engine/sample/sample_task.h"
#include "kernels/kernel_table.h"

namespace fastload {

enum class BuildOutcome : std::uint8_t {
    kKept,       // the file has a new record
    kKnown,      // its record says as much as a new one would, or all that it says is right
    kNotKept,    // there is no room
    kNone,       // files like it have no record, or it is damaged
    kTooNew,     // it was changed in the last minute, or nobody knows when
    kAbsent,     // it has no record
    kDifferent,  // its record says something else than the file
    kUnread      // it cannot be read
};

// The scratch of one thread, for one kind of records. Not thread-safe. A status that is not ok: the file cannot be
// read, or there is no memory.
class RecordBuilder {
  public:
    virtual ~RecordBuilder() = default;

    // Reads the whole file, unless its record is there, and keeps its record.
    virtual Status build(ByteSpan path, BuildOutcome* outcome) noexcept = 0;
    // Keeps the record of the file that build() was called with last, from pixels that the reference decoder made of
    // it. For pixels, where build() had kNone.
    virtual Status build_with_pixels(const PackedImageView& rgb, BuildOutcome* outcome) noexcept = 0;
    // Compares the file's record with what the file says, and keeps nothing.
    virtual Status compare(ByteSpan path, BuildOutcome* outcome) noexcept = 0;
    // Compares the same record with pixels that the reference decoder made. For pixels, where compare() had kDifferent.
    virtual Status compare_with_pixels(const PackedImageView& rgb, BuildOutcome* outcome) noexcept = 0;
};

// Builds indexes, in `options.cache`. May throw std::bad_alloc.
std::unique_ptr<RecordBuilder> make_index_builder(const KernelTable& kernels, const NativeWorkerOptions& options);

// Builds coefficients or pixels.
struct FileBuilderOptions {
    std::shared_ptr<const BuiltRecords> records;    // where files' records are looked for
    std::shared_ptr<RecordBuild> build;             // where new ones go; null: only compare() is called
    std::shared_ptr<const FirstSteps> first_steps;  // of pixels; null for coefficients
    std::int64_t clock_ahead_ns = 0;                // added to the system's clock; for tests
};

// `options.cache` is ignored. May throw std::bad_alloc.
std::unique_ptr<RecordBuilder> make_file_record_builder(const KernelTable& kernels, const NativeWorkerOptions& options,
                                                        FileBuilderOptions builder_options);

}  // namespace fastload
