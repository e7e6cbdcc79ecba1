#include "base/status.h"

namespace fastload {
namespace {

struct StatusRow {
    StatusCode code;
    Stage stage;
    const char* text;
};

constexpr StatusRow kStatusTable[] = {
    {StatusCode::kOk, Stage::kNone, "ok"},
    {StatusCode::kOpenFailed, Stage::kOpen, "cannot open the file"},
    {StatusCode::kNotRegularFile, Stage::kOpen, "not a regular file"},
    {StatusCode::kFileTooLarge, Stage::kLimit, "the file is larger than the limit"},
    {StatusCode::kReadFailed, Stage::kRead, "cannot read the file"},
    {StatusCode::kFileShrank, Stage::kRead, "the file became shorter while it was read"},
    {StatusCode::kUnsupported, Stage::kHeader, "not a kind of image the native decoder knows"},
    {StatusCode::kIrregular, Stage::kDecode, "irregular JPEG stream"},
    {StatusCode::kLimitExceeded, Stage::kLimit, "beyond the native decoder's limits"},
    {StatusCode::kInvalidGeometry, Stage::kTransform, "the transform cannot be applied to an image of this size"},
    {StatusCode::kOutOfMemory, Stage::kEngine, "out of memory"},
    {StatusCode::kWaitsForDraws, Stage::kEngine, "waits for the random numbers of samples before it"},
    {StatusCode::kCancelled, Stage::kEngine, "cancelled"},
};

constexpr bool table_matches_enum() {
    std::uint8_t expected = 0;
    for (const StatusRow& row : kStatusTable) {
        if (static_cast<std::uint8_t>(row.code) != expected++) return false;
    }
    return expected == static_cast<std::uint8_t>(StatusCode::kCancelled) + 1;
}
static_assert(table_matches_enum(), "kStatusTable must list every StatusCode in order");

constexpr const char* kStageNames[] = {"none", "open", "read", "header", "decode", "limit", "transform", "engine"};

}  // namespace

const char* status_text(StatusCode code) noexcept { return kStatusTable[static_cast<std::uint8_t>(code)].text; }

Stage stage_of(StatusCode code) noexcept { return kStatusTable[static_cast<std::uint8_t>(code)].stage; }

const char* stage_name(Stage stage) noexcept { return kStageNames[static_cast<std::uint8_t>(stage)]; }

}  // namespace fastload
