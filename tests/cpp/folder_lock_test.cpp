#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "check.h"
#include "forked_child.h"
#include "hooked_calls.h"
#include "io/records/record_folder.h"
#include "record_folders.h"

namespace fastload {
namespace {

using namespace testing;

int take_lock(const RecordFolder& folder) {
    FolderLock lock;
    return FolderLock::take(folder.descriptor(), &lock);
}

bool is_locked(const RecordFolder& folder) {
    const UniqueFd file(::open(folder.path("lock").c_str(), O_RDWR | O_CLOEXEC));
    CHECK(file.is_open());
    return ::flock(file.get(), LOCK_EX | LOCK_NB) != 0;
}

}  // namespace

TEST_CASE(folder_lock_keeps_others_out_until_its_end) {
    const RecordFolder folder;
    {
        FolderLock lock;
        CHECK_EQUAL(FolderLock::take(folder.descriptor(), &lock), 0);
        CHECK(is_locked(folder));
        CHECK_EQUAL(in_forked_child([&] { return is_locked(folder); }), 0);
        const FolderLock moved = std::move(lock);
        CHECK(is_locked(folder));
    }
    CHECK_EQUAL(take_lock(folder), 0);
    const std::vector<std::string> names = {"lock"};
    CHECK(folder.names() == names);
    struct stat facts = {};
    CHECK(::stat(folder.path("lock").c_str(), &facts) == 0);
    CHECK_EQUAL(facts.st_mode & 0777, 0600U);
}

TEST_CASE(folder_lock_is_free_at_its_end_though_a_forked_child_lives_on) {
    const RecordFolder folder;
    std::optional<FolderLock> lock(std::in_place);
    CHECK_EQUAL(FolderLock::take(folder.descriptor(), &*lock), 0);
    const IdleChild child;
    lock.reset();
    CHECK_EQUAL(take_lock(folder), 0);
}

TEST_CASE(folder_lock_is_not_freed_by_a_forked_child) {
    const RecordFolder folder;
    const RecordFolder elsewhere;
    std::optional<FolderLock> lock(std::in_place);
    CHECK_EQUAL(FolderLock::take(folder.descriptor(), &*lock), 0);
    CHECK_EQUAL(in_forked_child([&] {
                    lock.reset();
                    return is_locked(folder);
                }),
                0);
    CHECK(is_locked(folder));
    CHECK_EQUAL(in_forked_child([&] {
                    FolderLock own;
                    if (FolderLock::take(elsewhere.descriptor(), &own) != 0) return false;
                    *lock = std::move(own);
                    return true;
                }),
                0);
    CHECK(is_locked(folder));
}

TEST_CASE(folder_lock_waits_for_its_turn) {
    const RecordFolder folder;
    std::optional<FolderLock> lock(std::in_place);
    CHECK_EQUAL(FolderLock::take(folder.descriptor(), &*lock), 0);
    std::atomic<int> order{0};  // the lock orders it, which the thread sanitizer does not know
    int error = -1;
    std::thread waiting([&] {
        FolderLock own;
        error = FolderLock::take(folder.descriptor(), &own);
        order = 10 * order + 2;
    });
    order = 10 * order + 1;
    lock.reset();
    waiting.join();
    CHECK_EQUAL(error, 0);
    CHECK_EQUAL(order.load(), 12);
}

TEST_CASE(folder_lock_is_of_the_file_that_is_there) {
    const RecordFolder folder;
    const std::string path = folder.path("lock");
    for (int n = 1; n <= 4; ++n) {
        FolderLock lock;
        {
            const HookedCalls hooked(n, [&] {
                ::unlink(path.c_str());
                folder.write("lock", "");
                return HookedCalls::kGoesOn;
            });
            CHECK_EQUAL(FolderLock::take(folder.descriptor(), &lock), 0);
            CHECK(hooked.was_reached());
        }
        CHECK(is_locked(folder));
    }
    ::unlink(path.c_str());
    CHECK(::mkfifo(path.c_str(), 0600) == 0);
    CHECK_EQUAL(take_lock(folder), EINVAL);
    ::unlink(path.c_str());
    CHECK(::symlink("key", path.c_str()) == 0);
    CHECK_EQUAL(take_lock(folder), ELOOP);
    CHECK(!folder.has("key"));
}

TEST_CASE(folder_lock_that_cannot_be_taken_says_why_and_is_taken_later) {
    const RecordFolder folder;
    for (const int error : {EIO, EMFILE, EROFS, EINTR}) {
        for (int n = 1;; ++n) {
            bool was_reached = false;
            {
                const HookedCalls failing(n, error);
                const int result = take_lock(folder);
                was_reached = failing.was_reached();
                // Opened, looked at and locked; whether it is still there is asked again, and closing unlocks, too.
                CHECK_EQUAL(result, n <= 3 && error != EINTR ? error : 0);
            }
            CHECK_EQUAL(take_lock(folder), 0);
            if (!was_reached) break;
        }
    }
}

}  // namespace fastload
