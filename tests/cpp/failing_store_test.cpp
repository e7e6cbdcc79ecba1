// Stores whose system calls fail, whose memory or folder goes away, or whose process is killed, and what the next
// process finds.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <thread>
#include <tuple>

#include "check.h"
#include "failing_allocation.h"
#include "hooked_calls.h"
#include "rounds.h"
#include "running_store.h"

namespace fastload {

using namespace testing;

TEST_CASE(a_killed_writer_loses_what_is_not_published_and_the_next_one_goes_on_with_its_file) {
    const RecordFolder folder;
    const pid_t child = fork();
    if (child == 0) {
        RunningStore store(folder);
        for (std::uint64_t i = 0; i < 10; ++i) put(store.get(), i, 5000);
        store.flush();
        put(store.get(), 100, 100);
        ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    CHECK(::waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    // Written, but not published.
    const std::string data = folder.names()[0];
    folder.write(data, folder.read(data) + std::string(5000, 'x'));
    folder.write("index-0123456789abcdef.dat", "remains");
    {
        RunningStore next(folder);
        CHECK(put(next.get(), 11, 5000));
        next.flush();
        for (std::uint64_t i = 0; i < 10; ++i) CHECK(has(*next, i, 5000));
        CHECK(found(*next, 100).empty());
        CHECK_EQUAL(next->counters().damaged, 0U);
    }
    CHECK_EQUAL(count_names(folder, ".dat"), 1U);
    CHECK(blocks_bytes(folder) < 11 * 5000 + 20'000);
    check_is_tidy(folder);
}

TEST_CASE(files_of_a_living_writer_are_left_to_it) {
    const RecordFolder folder;
    RunningStore living(folder);
    for (std::uint64_t i = 0; i < 10; ++i) put(living.get(), i, 5000);
    living.flush();
    {
        RunningStore next(folder);
        put(next.get(), 10, 5000);
    }
    CHECK_EQUAL(count_names(folder, ".dat"), 2U);
    put(living.get(), 11, 5000);
    living.flush();
    CHECK(all_are_found_anew(folder, 12, 5000));
    CHECK_EQUAL(living->counters().write_error, 0);
}

TEST_CASE(each_call_of_the_system_may_fail_once_and_no_record_is_wrong) {
    // Errors are reported in different ways.
    for (const auto& [error, step] :
         {std::make_pair(EIO, 1), {ENOSPC, 3}, {EMFILE, 3}, {HookedCalls::kMovesOneByte, 3}}) {
        bool was_reached = true;
        for (int n = 1; was_reached; n += testing::stride(step)) {
            testing::current_variant() = "call " + std::to_string(n) + ", " + std::to_string(error);
            const RecordFolder folder;
            fill_files(folder, 1, 2, 100);
            std::atomic<bool> is_reached{false};
            std::vector<std::string> names;
            {
                const int told = error;  // a lambda may not capture a structured binding
                RunningStore store(folder, {64 * kMiB, 2000}, [&](RecordStore* opened) {
                    HookedCalls calls(n, told);
                    opened->run();
                    is_reached.store(calls.was_reached());
                    names = calls.names();
                });
                for (std::uint64_t i = 100; i < 104; ++i) put(store.get(), i, 500);
                store.flush();
                store->begin_epoch();
                for (std::uint64_t i = 104; i < 106; ++i) put(store.get(), i, 500);
                store.flush();
                const auto is_right = [&](std::uint64_t number, std::size_t size) {
                    return found(*store, number).empty() || has(*store, number, size);
                };
                for (std::uint64_t i = 0; i < 2; ++i) CHECK(is_right(i, 100));
                for (std::uint64_t i = 100; i < 106; ++i) CHECK(is_right(i, 500));
                CHECK_EQUAL(store->counters().damaged, 0U);
            }
            was_reached = is_reached.load();
            testing::current_variant() += ", " + (was_reached ? names[static_cast<std::size_t>(n) - 1] : "");
            RunningStore next(folder);
            next.close();
            for (std::uint64_t i = 0; i < 106; ++i) {
                const std::size_t size = i < 100 ? 100 : 500;
                CHECK(found(*next, i).empty() || has(*next, i, size));
                if (error != EIO && i < 2) CHECK(has(*next, i, 100));
            }
            CHECK_EQUAL(next->counters().damaged, 0U);
            check_is_tidy(folder);
        }
    }
}

TEST_CASE(a_process_that_is_killed_at_any_call_of_the_system_leaves_nothing_wrong) {
    for (int n = 1;; n += testing::stride(1)) {
        testing::current_variant() = "call " + std::to_string(n);
        const RecordFolder folder;
        fill_files(folder, 3, 1, 100);
        const auto kill_itself = [] { return ::kill(::getpid(), SIGKILL); };
        const pid_t child = fork();
        if (child == 0) {
            RunningStore store(folder, {64 * kMiB, 2000}, [&](RecordStore* opened) {
                HookedCalls calls(n, kill_itself);
                opened->run();
            });
            for (std::uint64_t i = 100; i < 105; ++i) put(store.get(), i, 500);
            store.flush();
            put(store.get(), 105, 500);  // in another file, as that one is full
            store.close();
            _exit(0);
        }
        int status = 0;
        CHECK(::waitpid(child, &status, 0) == child);
        CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
        RunningStore next(folder);
        next.flush();
        next.close();
        for (std::uint64_t i = 0; i < 3; ++i) CHECK(has(*next, i, 100));
        for (std::uint64_t i = 100; i < 106; ++i) CHECK(found(*next, i).empty() || has(*next, i, 500));
        CHECK_EQUAL(next->counters().damaged, 0U);
        CHECK_EQUAL(next->counters().write_error, 0);
        check_is_tidy(folder);
        if (!WIFSIGNALED(status)) break;
    }
}

TEST_CASE(each_allocation_may_fail_once_and_no_record_is_wrong) {
    bool has_failed = true;
    for (std::int64_t n = 1; has_failed; ++n) {
        testing::current_variant() = "allocation " + std::to_string(n);
        const RecordFolder folder;
        fill_files(folder, 2, 1, 100);
        const std::vector<RecordBytes> records(12, testing::record_bytes(1, 500));
        const auto store = make_store(folder, {64 * kMiB, 2000, true});
        std::atomic<bool> is_opened{false};
        std::thread thread([&] {
            while (!is_opened.load()) std::this_thread::yield();
            store->run();
        });
        {
            const FailingAllocation failing(n, false);
            try {
                CHECK_EQUAL(store->open(), 0);
            } catch (const std::bad_alloc&) {
            }
            is_opened.store(true);
            for (std::uint64_t i = 0; i < 12; ++i) store->put(content_key(100 + i), 0, view_of(records[i]));
            // Without memory for a waiting thread, the results are checked later.
            static_cast<void>(store->flush(std::chrono::seconds(20)));
            has_failed = FailingAllocation::has_failed();
        }
        for (std::uint64_t i = 0; i < 12; ++i) {
            const RecordBytes now = found(*store, 100 + i);
            CHECK(now.empty() || now == records[i]);
        }
        CHECK_EQUAL(store->counters().damaged, 0U);
        store->close();
        thread.join();
        RunningStore next(folder);
        next.close();
        for (std::uint64_t i = 0; i < 2; ++i) CHECK(has(*next, i, 100));
        check_is_tidy(folder);
    }
}

TEST_CASE(records_not_kept_for_lack_of_memory_or_descriptors_are_kept_in_the_next_epoch) {
    for (const int error : {ENOMEM, EMFILE}) {
        const RecordFolder folder;
        RunningStore store(folder);
        rlimit limit;
        CHECK_EQUAL(::getrlimit(RLIMIT_NOFILE, &limit), 0);
        const rlimit none = {0, limit.rlim_max};
        std::uint64_t number = 0;
        while (store->counters().write_error == 0) {
            put(store.get(), ++number, 20);
            if (error == EMFILE) CHECK_EQUAL(::setrlimit(RLIMIT_NOFILE, &none), 0);
            std::optional<FailingAllocation> failing;
            if (error == ENOMEM) failing.emplace(1, true);
            store.flush();
        }
        CHECK_EQUAL(::setrlimit(RLIMIT_NOFILE, &limit), 0);
        store.flush();  // its thread has finished the calls that failed
        CHECK_EQUAL(store->counters().write_error, error);
        CHECK(!put(store.get(), ++number, 20));
        store->begin_epoch();
        CHECK(put(store.get(), number, 20));
        store.flush();
        CHECK_EQUAL(store->counters().write_error, 0);
        store.close();
        RunningStore next(folder);
        CHECK(has(*next, number, 20));
    }
}

TEST_CASE(records_that_could_not_be_published_are_not_looked_for) {
    const RecordFolder folder;
    RunningStore store(folder);
    put(store.get(), 1, 5000);
    store.flush();
    const std::string data = folder.names()[0];
    CHECK_EQUAL(::mkdir(folder.path(data.substr(0, data.size() - 4) + ".tmp").c_str(), 0700), 0);
    for (std::uint64_t i = 2; i < 5; ++i) put(store.get(), i, 5000);
    store.flush();
    CHECK_EQUAL(store->counters().write_error, EISDIR);
    for (std::uint64_t i = 2; i < 5; ++i) CHECK(found(*store, i).empty());
    CHECK(has(*store, 1, 5000));
    CHECK(!put(store.get(), 6, 100));
    CHECK_EQUAL(store->counters().damaged, 0U);
    CHECK_EQUAL(count_names(folder, ".dat"), 1U);
}

TEST_CASE(a_directory_is_published_after_its_records_are_on_disk) {
    const RecordFolder folder;
    std::vector<std::string> names;
    {
        RunningStore store(folder, {}, [&names](RecordStore* opened) {
            const HookedCalls calls;
            opened->run();
            names = calls.names();
        });
        put(store.get(), 1, 100);
        store.flush();
        put(store.get(), 2, 100);
        store.flush();
    }
    int published = 0;
    bool is_written = false;  // since the last sync of the data
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (names[i] == "renameat") {
            ++published;
            CHECK(!is_written);
            // The temporary file is on disk before it gets its name, and the folder after.
            CHECK(i >= 1 && names[i - 1] == "fsync");
            CHECK(i + 1 < names.size() && names[i + 1] == "fsync");
        }
        if (names[i] == "fdatasync") is_written = false;
        // The pwritev before an fsync is the directory's own.
        if (names[i] == "pwritev" && (i + 1 >= names.size() || names[i + 1] != "fsync")) is_written = true;
    }
    CHECK_EQUAL(published, 2);
}

TEST_CASE(a_writer_that_ended_is_not_kept_alive_by_a_child) {
    const RecordFolder folder;
    int from_child[2];
    int to_child[2];
    CHECK(::pipe(from_child) == 0 && ::pipe(to_child) == 0);
    const pid_t parent = fork();
    if (parent == 0) {
        RunningStore store(folder);
        put(store.get(), 1, 100);
        store.flush();
        char byte = 0;
        if (fork() == 0) {
            store->close_after_fork();
            ::close(to_child[1]);
            if (::write(from_child[1], &byte, 1) == 1) static_cast<void>(::read(to_child[0], &byte, 1));  // to its end
            _exit(0);
        }
        ::pause();
    }
    char byte = 0;
    CHECK(::read(from_child[0], &byte, 1) == 1);
    ::kill(parent, SIGKILL);
    int status = 0;
    CHECK(::waitpid(parent, &status, 0) == parent);
    RunningStore next(folder);
    put(next.get(), 2, 100);
    next.flush();
    CHECK_EQUAL(count_names(folder, ".dat"), 1U);  // goes on with the file
    for (const int end : {from_child[0], from_child[1], to_child[0], to_child[1]}) ::close(end);
}

}  // namespace fastload
