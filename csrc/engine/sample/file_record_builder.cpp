#include <cstring>
#include <utility>
#include <vector>

#include "codec/jpeg/coefficient_writer.h"
#include "codec/jpeg/jpeg_decoder.h"
#include "engine/cache/file_record_cache.h"
#include "engine/sample/record_builder.h"
#include "engine/sample/recorded_file.h"
#include "engine/sample/sample_file.h"
#include "io/file_reader.h"

namespace fastload {
namespace {

// Makes a record of a file's contents. A status for the fallback, or one of a damaged file: there is none.
class RecordMaker {
  public:
    virtual ~RecordMaker() = default;

    virtual Status make(ByteSpan contents) noexcept = 0;
    virtual Status make_of_pixels(const PackedImageView& rgb) noexcept = 0;
    // The record of what was made; it stays until the next call. Empty where it is too large.
    virtual ByteSpan finish(const HashKey& key, std::uint64_t salt, const RecordStamp& stamp) noexcept = 0;
};

class CoefficientMaker final : public RecordMaker {
  public:
    CoefficientMaker(const KernelTable& kernels, const NativeWorkerOptions& options)
        : decoder_(kernels, options.decode_limits), writer_(kernels) {}

    Status make(ByteSpan contents) noexcept override {
        ImageInfo info;
        const Status status = decoder_.read_header(contents, &info);
        return status.is_ok() ? decoder_.read_coefficients(&writer_) : status;
    }
    Status make_of_pixels(const PackedImageView&) noexcept override {
        return Status::unsupported("pixels have no coefficients");
    }
    ByteSpan finish(const HashKey& key, std::uint64_t salt, const RecordStamp& stamp) noexcept override {
        return writer_.finish(key, salt, stamp);
    }

  private:
    JpegDecoder decoder_;
    jpeg::CoefficientWriter writer_;
};

// First steps do not draw.
class NoChoices final : public SampleChoices {
  public:
    Status resolve(const SampleTask& task, ImageSize source_size) noexcept override {
        CounterDraws none(0, 0, 0);
        return task.source->resolve(&none, source_size, task.report);
    }
};

class PixelMaker final : public RecordMaker {
  public:
    PixelMaker(const KernelTable& kernels, const NativeWorkerOptions& options,
               std::shared_ptr<const FirstSteps> first_steps)
        : worker_(kernels, options), file_(nullptr) {
        source_.first_steps = std::move(first_steps);
        report_.reset(source_);
    }

    Status make(ByteSpan contents) noexcept override {
        file_.view(contents);
        const Status status = worker_.decode(task(), &pixels_, &timings_);
        file_.forget();
        worker_.end_sample();
        return status;
    }
    Status make_of_pixels(const PackedImageView& rgb) noexcept override {
        const Status status = worker_.load_packed(task(), rgb, &pixels_, &timings_);
        worker_.end_sample();
        return status;
    }
    ByteSpan finish(const HashKey& key, std::uint64_t salt, const RecordStamp& stamp) noexcept override {
        return worker_.finish_first_steps(key, salt, stamp);
    }

  private:
    SampleTask task() noexcept {
        pixels_ = {};
        SampleTask task;
        task.source = &source_;
        task.file = &file_;
        task.report = &report_;
        task.choices = &choices_;
        return task;
    }

    NativeSampleWorker worker_;
    SampleSource source_;  // without views
    SampleFile file_;
    SampleReport report_;
    NoChoices choices_;
    LoadedPixels pixels_;
    SampleTimings timings_;
};

class FileRecordBuilder final : public RecordBuilder {
  public:
    FileRecordBuilder(const NativeWorkerOptions& options, FileBuilderOptions builder_options,
                      std::unique_ptr<RecordMaker> maker)
        : limits_(options.decode_limits),
          max_file_bytes_(options.max_file_bytes),
          options_(std::move(builder_options)),
          cache_(options_.records, Validation::kStat, 0),
          maker_(std::move(maker)) {}

    Status build(ByteSpan path, BuildOutcome* outcome) noexcept override {
        *outcome = BuildOutcome::kKnown;
        if (find(path)) return Status::ok();
        // A loader would still find the damaged one first.
        if (recorded_.has_key() && recorded_.outcome() == FileRecordCache::Outcome::kDamaged) {
            *outcome = BuildOutcome::kNotKept;
            return Status::ok();
        }
        const Status status = make(path, outcome);
        if (*outcome == BuildOutcome::kAbsent) *outcome = keep();
        return status;
    }

    Status build_with_pixels(const PackedImageView& rgb, BuildOutcome* outcome) noexcept override {
        const Status status = maker_->make_of_pixels(rgb);
        *outcome = status.is_ok() ? keep() : BuildOutcome::kNone;
        return no_memory_or_ok(status);
    }

    Status compare(ByteSpan path, BuildOutcome* outcome) noexcept override {
        const bool is_there = find(path);
        known_.clear();
        const bool is_read = is_there && recorded_.read_all(&known_);
        const Status status = make(path, outcome);
        if (status.is_ok() && is_there) {
            const bool is_same = is_read && *outcome == BuildOutcome::kAbsent && is_known_record();
            *outcome = is_same ? BuildOutcome::kKnown : BuildOutcome::kDifferent;
        }
        return status;
    }

    Status compare_with_pixels(const PackedImageView& rgb, BuildOutcome* outcome) noexcept override {
        const Status status = maker_->make_of_pixels(rgb);
        *outcome = status.is_ok() && is_known_record() ? BuildOutcome::kKnown : BuildOutcome::kDifferent;
        return no_memory_or_ok(status);
    }

  private:
    static Status no_memory_or_ok(const Status& status) noexcept {
        return status.code == StatusCode::kOutOfMemory ? status : Status::ok();
    }
    StepsHash steps() const noexcept {
        return options_.first_steps == nullptr ? StepsHash{} : options_.first_steps->hash;
    }

    // Whether the file's record is there; then it is open. By its metadata on any file system: a loader decides by
    // itself what it believes.
    bool find(ByteSpan path) noexcept {
        FileFacts facts;
        FileSystemKind kind = FileSystemKind::kLocal;
        return recorded_.begin(cache_, path, nullptr, steps()) &&
               find_file_facts(path, nullptr, &file_systems_, &facts, &kind) &&
               recorded_.find(cache_, facts, {}, limits_);
    }

    // Reads the file and makes its record, so that only finish() is left where *outcome is kAbsent.
    Status make(ByteSpan path, BuildOutcome* outcome) noexcept {
        *outcome = BuildOutcome::kUnread;
        opened_ns_ = system_time_ns() + options_.clock_ahead_ns;
        if (const Status status = reader_.read(path, max_file_bytes_, &contents_); !status.is_ok()) return status;
        const Status status = maker_->make(contents_);
        *outcome = status.is_ok() ? BuildOutcome::kAbsent : BuildOutcome::kNone;
        return no_memory_or_ok(status);
    }

    // The file as it was before it was read: where it has changed since, nobody believes the record.
    ByteSpan finish() noexcept {
        const HashKey& key = options_.records->key();
        return maker_->finish(key, recorded_.version().key.hash.high, stamp_of(key, reader_.facts(), contents_));
    }

    bool is_known_record() noexcept {
        const ByteSpan record = finish();
        return !record.is_empty() && known_.size() == record.size() &&
               std::memcmp(known_.data(), record.data(), record.size()) == 0;
    }

    BuildOutcome keep() noexcept {
        if (!recorded_.has_key() || !are_settled(reader_.facts(), opened_ns_)) return BuildOutcome::kTooNew;
        const ByteSpan record = finish();
        const bool is_kept =
            !record.is_empty() && options_.build->put(recorded_.version().key, rank_of(reader_.facts()), record);
        return is_kept ? BuildOutcome::kKept : BuildOutcome::kNotKept;
    }

    const DecodeLimits limits_;
    const std::uint64_t max_file_bytes_;
    const FileBuilderOptions options_;
    FileRecordCache cache_;
    FileSystemKinds file_systems_;
    const std::unique_ptr<RecordMaker> maker_;
    FileReader reader_;
    ByteSpan contents_;  // of the reader
    std::int64_t opened_ns_ = 0;
    RecordedFile recorded_;
    std::vector<std::uint8_t> known_;  // the record that is compared
};

}  // namespace

std::unique_ptr<RecordBuilder> make_file_record_builder(const KernelTable& kernels, const NativeWorkerOptions& options,
                                                        FileBuilderOptions builder_options) {
    NativeWorkerOptions without_cache = options;
    without_cache.cache = nullptr;
    std::unique_ptr<RecordMaker> maker;
    if (builder_options.records->kind() == RecordKind::kPixels) {
        maker = std::make_unique<PixelMaker>(kernels, without_cache, builder_options.first_steps);
    } else {
        maker = std::make_unique<CoefficientMaker>(kernels, without_cache);
    }
    return std::make_unique<FileRecordBuilder>(options, std::move(builder_options), std::move(maker));
}

}  // namespace fastload
