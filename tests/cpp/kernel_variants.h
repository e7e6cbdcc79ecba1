// Runs a test once for every kernel table that this processor has.
#pragma once

#include "check.h"
#include "kernels/dispatch.h"

namespace fastload {

// Calls run(table) for each; failures of checks in it name the table.
template <typename Run>
void for_each_kernel_table(Run run) {
    for (const KernelTable* table : runnable_kernel_tables()) {
        testing::current_variant() = table->name;
        run(*table);
    }
    testing::current_variant().clear();
}

}  // namespace fastload
