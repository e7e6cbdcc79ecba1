// Runs the registered cases; see check.h.

#include "check.h"

int main(int argc, char** argv) {
    using namespace fastload::testing;
    int run = 0;
    int failed = 0;
    for (const TestCase& test : test_cases()) {
        bool is_wanted = argc == 1;
        for (int i = 1; i < argc; ++i) is_wanted = is_wanted || std::strstr(test.name, argv[i]) != nullptr;
        if (!is_wanted) continue;
        const int failures_before = failure_count();
        current_variant().clear();
        test.body();
        ++run;
        if (failure_count() != failures_before) {
            ++failed;
            std::cerr << "FAILED " << test.name << "\n";
        }
    }
    std::cout << run - failed << " passed, " << failed << " failed\n";
    return failed == 0 && run > 0 ? 0 : 1;
}
