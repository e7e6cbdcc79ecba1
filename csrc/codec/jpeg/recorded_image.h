// From coefficient records to pixels.
#pragma once

#include "base/image_view.h"
#include "base/status.h"
#include "codec/jpeg/reconstruct.h"
#include "codec/jpeg/record_reader.h"
#include "kernels/kernel_table.h"

namespace fastload::jpeg {

// Reconstructs `region`, whose rows `reader` has read last. All rows of the reconstructor are complete then. kIrregular
// if blocks end after their block row. The reader must live until the reconstructor's view is taken.
Status reconstruct_record(const KernelTable& kernels, const RecordReader& reader, const Region& region,
                          Reconstructor* reconstructor) noexcept;

}  // namespace fastload::jpeg
