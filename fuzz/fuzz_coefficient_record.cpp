// Reads coefficient records: any bytes, and a valid record with changed bytes and right sums, with the kernels of every
// instruction set, and read at once. All of these agree.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "coefficient_records.h"
#include "fuzz_input.h"
#include "kernels/dispatch.h"
#include "small_picture.h"
#include "test_images.h"

namespace fastload {
namespace {

using fuzzing::Input;
using fuzzing::require;

constexpr ByteSpan kFile = {testing::kSmallPicture, sizeof(testing::kSmallPicture)};

// It may be of another size, and then may or may not hold the region.
void check_any_record(const std::vector<std::uint8_t>& record, const Region& region) {
    std::vector<testing::RecordDecoder> decoders;
    std::vector<StripImageView> views;
    std::vector<Status> statuses;
    const auto decode = [&](const KernelTable& kernels, jpeg::ReadPart part) {
        StripImageView view;
        decoders.emplace_back(kernels, part);
        statuses.push_back(decoders.back().decode(record, region, &view));
        views.push_back(view);
    };
    for (const KernelTable* kernels : runnable_kernel_tables()) decode(*kernels, jpeg::ReadPart::kNeeded);
    decode(**runnable_kernel_tables().begin(), jpeg::ReadPart::kAll);
    for (std::size_t i = 1; i < views.size(); ++i) {
        require(statuses[i].code == statuses[0].code);
        if (statuses[0].is_ok()) require(testing::is_same_view(views[i], views[0]));
    }
}

void check(ByteSpan data) {
    Input input(data);
    const bool is_any = input.choose(2) == 1;
    const Region region = testing::any_region({272, 80}, [&input] { return input.raw<std::uint16_t>(); });
    if (is_any) return check_any_record({input.rest().begin(), input.rest().end()}, region);
    static const std::vector<std::uint8_t> whole = testing::record_of(**runnable_kernel_tables().begin(), kFile);
    std::vector<std::uint8_t> record = whole;
    fuzzing::change_bytes(&input, &record);
    if (testing::put_sums_right(&record)) check_any_record(record, region);
}

}  // namespace
}  // namespace fastload

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fastload::check({data, size});
    return 0;
}
