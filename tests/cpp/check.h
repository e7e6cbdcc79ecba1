// A small test framework for the C++ tests: named cases that register themselves, and checks that report the values
// they compared. A case that fails a check goes on; the process exits with 1. `unit_tests NAME...` runs the cases whose
// name contains one of the words.
#pragma once

#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace fastload::testing {

struct TestCase {
    const char* name;
    std::function<void()> body;
};

inline std::vector<TestCase>& test_cases() {
    static std::vector<TestCase> cases;
    return cases;
}

inline int& failure_count() {
    static int count = 0;
    return count;
}

// The thing being tested at the moment, for messages; "" if the case's name says it all. Empty when a case begins.
inline std::string& current_variant() {
    static std::string variant;
    return variant;
}

struct Registration {
    Registration(const char* name, std::function<void()> body) { test_cases().push_back({name, std::move(body)}); }
};

inline void report_failure(const char* file, int line, const std::string& message) {
    ++failure_count();
    const std::string& variant = current_variant();
    std::cerr << file << ":" << line << ": " << (variant.empty() ? "" : "[" + variant + "] ") << message << "\n";
}

template <typename A, typename B>
void check_equal(const A& actual, const B& expected, const char* expression, const char* file, int line) {
    if (actual == expected) return;
    std::ostringstream message;
    message << expression << ": got " << +actual << ", expected " << +expected;
    report_failure(file, line, message.str());
}

}  // namespace fastload::testing

// TEST_CASE(name_is_a_sentence) { ... }
#define TEST_CASE(name)                                                                 \
    static void name();                                                                 \
    static const ::fastload::testing::Registration registration_of_##name(#name, name); \
    static void name()

#define CHECK(condition)                                                                                    \
    do {                                                                                                    \
        if (!(condition)) ::fastload::testing::report_failure(__FILE__, __LINE__, "not true: " #condition); \
    } while (false)

// Both sides must be printable numbers (or enums cast to one).
#define CHECK_EQUAL(actual, expected) \
    ::fastload::testing::check_equal((actual), (expected), #actual, __FILE__, __LINE__)
