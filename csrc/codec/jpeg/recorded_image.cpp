#include "codec/jpeg/recorded_image.h"

#include <algorithm>

namespace fastload::jpeg {
namespace {

std::size_t as_size(std::int32_t value) { return static_cast<std::size_t>(value); }

// Reconstructs the part of one component's block row that lies in the reconstructor's window. False if it holds too few
// blocks.
bool reconstruct_blocks(const KernelTable& kernels, const CoefficientRecord& record, int component,
                        std::int32_t block_row, ByteSpan packed, const Reconstructor& reconstructor) {
    const FrameComponent& facts = record.frame().components[component];
    const McuWindow& window = reconstructor.window();
    const std::int32_t left = window.left * facts.horizontal;
    const std::int32_t right = std::min(window.right * facts.horizontal, facts.blocks_wide);
    const std::uint8_t* const first = kernels.skip_blocks(packed.begin(), packed.end(), as_size(left));
    return first != nullptr &&
           kernels.reconstruct_blocks(first, packed.end(), as_size(right - left), record.quantization(component),
                                      reconstructor.block(component, left, block_row)) != nullptr;
}

}  // namespace

Status reconstruct_record(const KernelTable& kernels, const RecordReader& reader, const Region& region,
                          Reconstructor* reconstructor) noexcept {
    const CoefficientRecord& record = reader.record();
    const RecordRows& rows = reader.rows();
    const Frame& frame = record.frame();
    if (const Status status = reconstructor->prepare(frame, record.color(), region); !status.is_ok()) return status;
    for (std::int32_t row = rows.first; row < rows.end; ++row) {
        for (int i = 0; i < frame.component_count; ++i) {
            const FrameComponent& component = frame.components[i];
            const int count = std::min(component.vertical, component.blocks_high - row * component.vertical);
            for (int block_row = 0; block_row < count; ++block_row) {
                const ByteSpan packed = record.block_row(rows, reader.row_bytes(), row, i, block_row);
                if (!reconstruct_blocks(kernels, record, i, row * component.vertical + block_row, packed,
                                        *reconstructor)) {
                    return Status::irregular("a coefficient record has too few bytes for its blocks", 0);
                }
            }
        }
        reconstructor->mcu_row_is_complete(row);
    }
    return Status::ok();
}

}  // namespace fastload::jpeg
