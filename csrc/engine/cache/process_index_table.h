// The index table that all loaders of a process share: keys are contents, so it does not matter whose they are.
#pragma once

#include <cstddef>

#include "engine/cache/index_table.h"

namespace fastload {

// Sets how large the process's table may become; the default is 512 MiB. Returns false, and changes nothing, if this
// process has used its table already. A forked child begins with the parent's limit. Thread-safe.
bool set_process_index_bytes(std::size_t max_bytes) noexcept;

// Returns the table, which is made at first use and lives until the process ends, or nullptr if there is no memory for
// it. A forked child has an empty table of its own: it leaks its copy of the parent's and touches none of its locks,
// see Note [after fork]. Thread-safe.
IndexTable* process_index_table() noexcept;

}  // namespace fastload
