#include <memory>
#include <numeric>

#include "kernel_case.h"

namespace fastload::benchmarks {

void add_copy_cases(KernelCases* cases) {
    struct Copy {
        Bytes from = Bytes(std::size_t{16} << 20);
        Bytes to = Bytes(from.size());
    };
    const auto copy = std::make_shared<Copy>();
    std::iota(copy->from.begin(), copy->from.end(), std::uint8_t{0});
    cases->push_back({"stream_copy, 16 MiB", "byte", static_cast<double>(copy->from.size()),
                      [copy](const KernelTable& kernels) {
                          kernels.stream_copy(copy->to.data(), copy->from.data(), copy->to.size());
                      },
                      [copy] { return copy->to; }});
}

}  // namespace fastload::benchmarks
