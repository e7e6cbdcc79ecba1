#include <memory>
#include <string>

#include "kernel_case.h"
#include "test_images.h"

namespace fastload::benchmarks {
namespace {

constexpr std::int32_t kSide = 224;
constexpr std::size_t kPixels = std::size_t{kSide} * kSide;

struct Conversion {
    testing::StripImage strips{kSide, kSide, 1};
    testing::PlanarImage rows{kSide, kSide};
    Bytes table;
    Bytes elements;
    ConvertJob job;

    Conversion(int element_size_bytes, bool is_channels_last) {
        const auto size = static_cast<std::size_t>(element_size_bytes);
        for (std::size_t i = 0; i < 3 * 256 * size; ++i) table.push_back(static_cast<std::uint8_t>(37 * i >> 3));
        elements.resize(3 * kPixels * size);
        job.width = kSide;
        job.height = kSide;
        job.is_channels_last = is_channels_last;
        job.element_size_bytes = element_size_bytes;
        job.table = size == 1 ? nullptr : table.data();
        for (int plane = 0; plane < 3; ++plane) {
            for (std::int32_t i = 0; i < kSide * kSide; ++i) {
                rows.at(plane, i % kSide, i / kSide) = strips.view().at(plane, i % kSide, i / kSide);
            }
        }
    }
};

void add_case(KernelCases* cases, const std::string& kind, bool is_from_rows, int element_size_bytes,
              bool is_channels_last) {
    const auto conversion = std::make_shared<Conversion>(element_size_bytes, is_channels_last);
    cases->push_back({(is_from_rows ? "convert_rows to " : "convert_strips to ") + kind, "pixel", double{kPixels},
                      [conversion, is_from_rows](const KernelTable& kernels) {
                          void* const elements = conversion->elements.data();
                          if (is_from_rows) {
                              kernels.convert_rows(conversion->rows.view(), conversion->job, elements);
                          } else {
                              kernels.convert_strips(conversion->strips.view(), conversion->job, elements);
                          }
                      },
                      [conversion] { return conversion->elements; }});
}

}  // namespace

void add_convert_cases(KernelCases* cases) {
    for (const bool is_from_rows : {true, false}) {
        for (const bool is_channels_last : {false, true}) {
            const std::string layout = is_channels_last ? "HWC" : "CHW";
            add_case(cases, "uint8 " + layout, is_from_rows, 1, is_channels_last);
            add_case(cases, "float16 " + layout, is_from_rows, 2, is_channels_last);
            add_case(cases, "float32 " + layout, is_from_rows, 4, is_channels_last);
        }
    }
}

}  // namespace fastload::benchmarks
