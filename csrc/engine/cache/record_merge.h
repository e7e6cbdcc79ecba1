// Puts many small files of a store together.
#pragma once

#include <cstddef>

#include "engine/cache/record_appender.h"

namespace fastload {

// Where more than `max_files` files have no writer any more, the smallest of them become one, as many as the store's
// bytes allow; of each key the best record stays. Files of writers that live are left alone, and another process
// that merges is left to it. Whoever reads an old file goes on. The error of the system that ended it; 0: none. May
// throw std::bad_alloc; the store is whole then.
int merge_records(const StorePlace& place, std::size_t max_files);

}  // namespace fastload
