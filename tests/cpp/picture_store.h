// A store of files that all hold one picture, and are there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "check.h"
#include "coefficient_records.h"
#include "engine/cache/built_records.h"
#include "engine/cache/decode_cache.h"
#include "engine/cache/file_record_cache.h"
#include "engine/cache/record_build.h"
#include "engine/sample/native_sample_worker.h"
#include "running_store.h"
#include "small_picture.h"
#include "temporary_folder.h"

namespace fastload::testing {

constexpr ByteSpan kPictureFile = {kSmallPicture, sizeof kSmallPicture};

// A store in which records of files with that picture are put as they are given.
class PictureStore {
  public:
    explicit PictureStore(RecordKind kind) : kind_(kind), build_(open(), 64 * kMiB) {
        CHECK(build_.records().key().words == record_key().words);
    }
    FileRecordCache& files() { return *files_; }
    // As of publish().
    const NativeWorkerOptions& options() const { return options_; }

    FileVersion new_file(int number, const StepsHash& steps) {
        FileVersion version;
        FileSystemKinds file_systems;
        FileSystemKind kind = FileSystemKind::kLocal;
        const std::string path =
            images_.write(name_of(number), {reinterpret_cast<const char*>(kPictureFile.data()), kPictureFile.size()});
        CHECK(find_file_key(record_key(), bytes_of(path), nullptr, steps, &version.key));
        CHECK(find_file_facts(bytes_of(path), nullptr, &file_systems, &version.facts, &kind));
        return version;
    }
    static RecordStamp stamp_of(const FileVersion& version) {
        return fastload::stamp_of(record_key(), version.facts, kPictureFile);
    }
    void put(const FileVersion& version, ByteSpan record) {
        CHECK(build_.put(version.key, rank_of(version.facts), record));
    }
    // Ends the build, and opens the store for a worker.
    void publish() {
        build_.finish();
        CHECK_EQUAL(build_.error(), 0);
        files_ = std::make_shared<FileRecordCache>(open(), Validation::kStat, 0);
        const std::shared_ptr<IndexRecords> no_indexes = make_store(folder_, {kMiB, 0, false});
        options_.cache = std::make_shared<DecodeCache>(record_key(), no_indexes, 0, files_);
    }
    std::string path(int number) const { return images_.path() + "/" + name_of(number); }

  private:
    static std::string name_of(int number) { return std::to_string(number) + ".jpg"; }

    std::shared_ptr<BuiltRecords> open() {
        auto records =
            std::make_shared<BuiltRecords>(duplicate(folder_), std::make_unique<const HashKey>(store_key()), kind_);
        CHECK_EQUAL(records->open(), 0);
        return records;
    }

    const RecordKind kind_;
    RecordFolder folder_;
    TemporaryFolder images_;
    RecordBuild build_;
    std::shared_ptr<FileRecordCache> files_;
    NativeWorkerOptions options_;
};

}  // namespace fastload::testing
