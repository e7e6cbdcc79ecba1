// Runs a fuzz target over files and folders without a fuzzer, e.g. over a corpus as a test:
//     fuzz_plain_header fuzz/corpus/plain_header image.jpg
//     fuzz_transform_plan --random 1000
// The second form makes its inputs, the same ones each time. Prints the number of inputs that ran. With --verbose as
// first argument, it writes each name before it runs: the last one crashed.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

void replay(const std::string& name, const std::vector<char>& bytes, bool is_verbose) {
    // An exact allocation, so that the address sanitizer detects a read one byte after the input.
    const std::unique_ptr<std::uint8_t[]> copy(new std::uint8_t[bytes.size()]);
    for (std::size_t i = 0; i < bytes.size(); ++i) copy[i] = static_cast<std::uint8_t>(bytes[i]);
    if (is_verbose) std::cerr << name << std::endl;
    LLVMFuzzerTestOneInput(copy.get(), bytes.size());
}

void replay(const fs::path& path, bool is_verbose) {
    std::ifstream file(path, std::ios::binary);
    replay(path.string(), {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}, is_verbose);
}

void replay_random(std::size_t number, bool is_verbose) {
    std::mt19937 random(static_cast<std::uint32_t>(number));
    std::vector<char> bytes(random() % 512);
    for (char& byte : bytes) byte = static_cast<char>(random());
    replay("random input " + std::to_string(number), bytes, is_verbose);
}

}  // namespace

int main(int argc, char** argv) {
    std::size_t count = 0;
    const bool is_verbose = argc > 1 && std::strcmp(argv[1], "--verbose") == 0;
    for (int i = is_verbose ? 2 : 1; i < argc; ++i) {
        if (std::strcmp(argv[i], "--random") == 0 && i + 1 < argc) {
            for (const std::size_t end = std::stoul(argv[++i]); count < end; ++count) replay_random(count, is_verbose);
            continue;
        }
        if (!fs::is_directory(argv[i])) {
            replay(argv[i], is_verbose);
            ++count;
            continue;
        }
        for (const fs::directory_entry& entry : fs::recursive_directory_iterator(argv[i])) {
            if (!entry.is_regular_file()) continue;
            replay(entry.path(), is_verbose);
            ++count;
        }
    }
    std::cout << count << " inputs replayed\n";
    return count > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
