// The way through a file's scans, which the decoders of sequential and of progressive files share.
#pragma once

#include <cstddef>

#include "base/span.h"
#include "base/status.h"
#include "codec/decoder.h"
#include "codec/jpeg/decoding_tables.h"
#include "codec/jpeg/file_check.h"
#include "codec/jpeg/markers.h"
#include "codec/jpeg/reconstruct.h"
#include "codec/jpeg/scan_data.h"
#include "kernels/kernel_table.h"

namespace fastload::jpeg {

// All of it must outlive the decoder that uses it.
struct FrameTools {
    const KernelTable& kernels;
    ScanReader& reader;
    DecodingTables& tables;
    Reconstructor& reconstructor;
};

// Base of both decoders.
class FrameScans {
  protected:
    FrameScans(const FrameTools& tools, const DecodeLimits& limits) noexcept : tools_(tools), limits_(limits) {}

    void begin(ByteSpan file, const Header& header) noexcept {
        file_ = file;
        header_ = &header;
    }

    // See jpeg::for_each_scan.
    template <typename ReadData, typename Decode>
    Status for_each_scan(ReadData read_data, Decode decode) noexcept {
        std::size_t end_offset = 0;
        return jpeg::for_each_scan(file_, *header_, limits_, &tools_.tables, &tables_, &end_offset, read_data, decode);
    }

    // A component keeps the quantization table of its first scan, as in libjpeg, while others may be redefined.
    void keep_quantization(const Scan& scan) noexcept {
        for (int i = 0; i < scan.component_count; ++i) {
            const int component = scan.components[i].component;
            quantization_[component] = tables_.quantization[header_->frame.components[component].quantization_slot];
        }
    }

    FrameTools tools_;
    DecodeLimits limits_;
    ByteSpan file_;
    const Header* header_ = nullptr;
    Tables tables_;
    QuantizationTable quantization_[kMaxComponents];
};

}  // namespace fastload::jpeg
