// Merges many small files of a store.
#pragma once

#include <cstddef>

#include "engine/cache/record_appender.h"

namespace fastload {

// If more than `max_files` files have no writer any more, merges the smallest of them into one, as many as the store's
// bytes allow; the best record of each key stays. Leaves files of living writers alone, and does nothing while another
// process merges. Readers of an old file go on. Returns the system error that ended it, or 0. May throw std::bad_alloc;
// the store is whole then.
int merge_records(const StorePlace& place, std::size_t max_files);

}  // namespace fastload
