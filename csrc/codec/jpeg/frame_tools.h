// What the decoders of sequential and of progressive files share.
#pragma once

#include "codec/jpeg/decoding_tables.h"
#include "codec/jpeg/reconstruct.h"
#include "codec/jpeg/scan_data.h"
#include "kernels/kernel_table.h"

namespace fastload::jpeg {

// All of it must outlive whoever uses it.
struct FrameTools {
    const KernelTable& kernels;
    ScanReader& reader;
    DecodingTables& tables;
    Reconstructor& reconstructor;
};

}  // namespace fastload::jpeg
