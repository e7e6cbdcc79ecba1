// A store of files that all hold one picture, and are there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "check.h"
#include "coefficient_records.h"
#include "engine/cache/file_record_cache.h"
#include "engine/sample/native_sample_worker.h"
#include "running_store.h"
#include "small_picture.h"
#include "temporary_folder.h"

namespace fastload::testing {

constexpr ByteSpan kPictureFile = {kSmallPicture, sizeof kSmallPicture};

// A store with its thread, in which records of files with that picture are put as they are given.
class PictureStore {
  public:
    PictureStore(RecordKind kind, std::uint64_t num_files) : running_(folder_, {64 * kMiB, 0, true, kind}) {
        const std::shared_ptr<RecordStore> store(running_.get(), [](RecordStore*) {});
        files_ = std::make_shared<FileRecordCache>(store, Validation::kTrust, 0);
        options_.cache = std::make_shared<DecodeCache>(store->key(), store, num_files, files_);
        options_.has_indexes = false;
        CHECK(store->key().words == record_key().words);
    }
    FileRecordCache& files() { return *files_; }
    const NativeWorkerOptions& options() const { return options_; }
    void flush() { running_.flush(); }

    FileVersion new_file(int number, const StepsHash& steps) {
        FileVersion version;
        const std::string path =
            images_.write(name_of(number), {reinterpret_cast<const char*>(kPictureFile.data()), kPictureFile.size()});
        CHECK(files_->find_key(bytes_of(path), nullptr, steps, &version.key));
        CHECK(files_->find_facts(bytes_of(path), nullptr, &version.facts));
        return version;
    }
    std::string path(int number) const { return images_.path() + "/" + name_of(number); }

  private:
    static std::string name_of(int number) { return std::to_string(number) + ".jpg"; }

    RecordFolder folder_;
    TemporaryFolder images_;
    RunningStore running_;
    std::shared_ptr<FileRecordCache> files_;
    NativeWorkerOptions options_;
};

}  // namespace fastload::testing
