// A folder with files for tests that read them.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/span.h"
#include "check.h"

namespace fastload::testing {

// Removed at the end of the test, with the files named in it.
class TemporaryFolder {
  public:
    TemporaryFolder() {
        char name[] = "/tmp/fastload_test_XXXXXX";
        path_ = mkdtemp(name);
    }
    TemporaryFolder(const TemporaryFolder&) = delete;  // a place, not a value
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    ~TemporaryFolder() {
        for (const std::string& file : files_) ::unlink(file.c_str());
        ::rmdir(path_.c_str());
    }
    std::string name(const std::string& file) {
        files_.push_back(path_ + "/" + file);
        return files_.back();
    }
    std::string write(const std::string& file, const std::string& contents) {
        const std::string path = name(file);
        const int fd = ::open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
        CHECK(::write(fd, contents.data(), contents.size()) == static_cast<ssize_t>(contents.size()));
        ::close(fd);
        return path;
    }
    const std::string& path() const { return path_; }

  private:
    std::string path_;
    std::vector<std::string> files_;
};

inline ByteSpan bytes_of(const std::string& text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace fastload::testing
