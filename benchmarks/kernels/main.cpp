// kernel_benchmark ROUNDS MICROSECONDS NAME_PART: prints a line of JSON for each table and each kernel whose name
// contains NAME_PART. Compares the bytes of all kernels and tables with the scalar ones before it times anything, and
// exits with status 1 if they differ. A measurement repeats a kernel for at least MICROSECONDS; the tables take turns.
#include <cstdlib>
#include <ctime>
#include <iostream>

#include "kernel_case.h"
#include "kernels/dispatch.h"

namespace fastload::benchmarks {
namespace {

bool all_tables_agree(const KernelCases& cases) {
    bool do_agree = true;
    for (const KernelCase& kernel : cases) {
        const Span<const KernelTable* const> tables = runnable_kernel_tables();
        kernel.reset();
        kernel.run(*tables[tables.size() - 1]);
        const Bytes expected = kernel.result();
        for (const KernelTable* table : tables) {
            kernel.reset();
            kernel.run(*table);
            if (kernel.result() == expected) continue;
            std::cerr << kernel.name << ": the bytes of " << table->name << " differ from the scalar ones\n";
            do_agree = false;
        }
    }
    return do_agree;
}

// Processor time of this thread, so that other work on the core does not count.
double now_nanoseconds() {
    timespec time = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return 1e9 * static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec);
}

double nanoseconds(const KernelCase& kernel, const KernelTable& table, int runs) {
    const double start = now_nanoseconds();
    for (int i = 0; i < runs; ++i) kernel.run(table);
    return now_nanoseconds() - start;
}

int runs_within(const KernelCase& kernel, const KernelTable& table, double wanted_nanoseconds) {
    int runs = 1;
    while (nanoseconds(kernel, table, runs) < wanted_nanoseconds) runs *= 2;
    return runs;
}

void measure(const KernelCase& kernel, int rounds, double wanted_nanoseconds) {
    const Span<const KernelTable* const> tables = runnable_kernel_tables();
    std::vector<int> runs;
    for (const KernelTable* table : tables) runs.push_back(runs_within(kernel, *table, wanted_nanoseconds));
    std::vector<std::vector<double>> times(tables.size());
    for (int round = 0; round < rounds; ++round) {
        for (std::size_t t = 0; t < tables.size(); ++t) {
            times[t].push_back(nanoseconds(kernel, *tables[t], runs[t]) / (runs[t] * kernel.units));
        }
    }
    for (std::size_t t = 0; t < tables.size(); ++t) {
        std::cout << "{\"kernel\": \"" << kernel.name << "\", \"unit\": \"" << kernel.unit << "\", \"table\": \""
                  << tables[t]->name << "\", \"nanoseconds\": [";
        for (std::size_t i = 0; i < times[t].size(); ++i) std::cout << (i == 0 ? "" : ", ") << times[t][i];
        std::cout << "]}" << std::endl;
    }
}

}  // namespace
}  // namespace fastload::benchmarks

int main(int argc, char** argv) {
    using namespace fastload::benchmarks;
    if (argc != 4) {
        std::cerr << "usage: kernel_benchmark ROUNDS MICROSECONDS NAME_PART\n";
        return 2;
    }
    KernelCases cases;
    add_find_marker_cases(&cases);
    add_block_cases(&cases);
    add_coefficient_cases(&cases);
    add_strip_cases(&cases);
    add_resize_cases(&cases);
    add_convert_cases(&cases);
    add_blur_cases(&cases);
    add_affine_cases(&cases);
    add_hash_cases(&cases);
    add_copy_cases(&cases);
    if (!all_tables_agree(cases)) return 1;
    for (const KernelCase& kernel : cases) {
        if (kernel.name.find(argv[3]) == std::string::npos) continue;
        measure(kernel, std::atoi(argv[1]), 1000.0 * std::atof(argv[2]));
    }
    return 0;
}
