// What this binary is: version, compiler, language standard and kernel tables.
#include <string>

#include "bindings/bindings.h"
#include "kernels/dispatch.h"

#define FASTLOAD_STRINGIFY_TOKEN(token) #token
#define FASTLOAD_STRINGIFY(macro) FASTLOAD_STRINGIFY_TOKEN(macro)

namespace fastload {
namespace {

// Of the code that runs, also where Python files and an older binary disagree. The build passes it as a bare token.
constexpr const char* kVersion = FASTLOAD_STRINGIFY(FASTLOAD_VERSION);

#if defined(__clang__)
constexpr const char* kCompiler = "Clang " FASTLOAD_STRINGIFY(__clang_major__) "." FASTLOAD_STRINGIFY(
    __clang_minor__) "." FASTLOAD_STRINGIFY(__clang_patchlevel__);
#else
constexpr const char* kCompiler = "GCC " __VERSION__;
#endif

// Names the tables that can run here, best first.
std::string join_table_names() {
    std::string names;
    for (const KernelTable* table : runnable_kernel_tables())
        names += (names.empty() ? "" : ", ") + std::string(table->name);
    return names;
}

}  // namespace

const KernelTable& active_kernel_table() {
    const KernelTable* table = select_kernel_table();
    if (table != nullptr) return *table;
    throw pybind11::value_error(std::string("FASTLOAD_SIMD must name a kernel table that this build and processor ") +
                                "have (" + join_table_names() + "), got '" + requested_kernel_table() +
                                "'. Unset it to take the best one.");
}

void bind_build_info(pybind11::module_& module) {
    module.attr("version") = kVersion;
    module.attr("compiler") = kCompiler;
    module.attr("cxx_standard") = static_cast<long>(__cplusplus);
    module.def("available_kernel_tables", &join_table_names);
    module.def("active_kernel_table", [] { return active_kernel_table().name; });
}

}  // namespace fastload
