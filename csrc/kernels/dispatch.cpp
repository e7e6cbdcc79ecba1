#include "kernels/dispatch.h"

#include <cstdlib>
#include <cstring>

namespace fastload {
namespace {

constexpr KernelTable kScalarTable = {
    "scalar",
};

}  // namespace

const KernelTable* select_kernel_table() noexcept {
    const char* forced = std::getenv("FASTLOAD_SIMD");
    if (forced == nullptr || *forced == '\0' || std::strcmp(forced, kScalarTable.name) == 0) return &kScalarTable;
    return nullptr;
}

const char* available_kernel_tables() noexcept { return kScalarTable.name; }

}  // namespace fastload
