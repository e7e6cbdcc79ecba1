// The one table of a process, which all its loaders share: keys are contents, so it does not matter whose they are.
#pragma once

#include <cstddef>

#include "engine/cache/index_table.h"

namespace fastload {

// Says how large the process's table may become; 512 MiB where nobody does. False, and nothing is changed, where this
// process has used its table already. A forked child begins with the parent's figure. Thread-safe.
bool set_process_index_bytes(std::size_t max_bytes) noexcept;

// Made at first use, and there until the process ends. nullptr where there is no memory for it. A forked child has an
// empty one of its own: it leaks its copy of the parent's and touches no lock of that, see Note [after fork].
// Thread-safe.
IndexTable* process_index_table() noexcept;

}  // namespace fastload
