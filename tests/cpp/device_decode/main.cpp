// Makes samples by the kernels that decode on a device, run on the host. Reads requests from the standard input:
// numbers of the struct below and, unless `file_bytes` is 0, which stands for the file before, that many bytes of a
// file. Writes for each of them an Answer and, if it is kMade, the pixels, uint8[height, width, 3], or, where these are
// wanted, the bytes of scratch memory and of the sample in scan form, and the sample.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "emulated_scan.h"
#include "scan_maker.h"

namespace fastload {
namespace {

struct Request {
    std::int32_t file_bytes;
    std::int32_t level;  // an IndexLevel
    std::int32_t crop[4];
    std::int32_t to[2];  // width, height
    std::int32_t kept[4];
    std::int32_t interpolation;  // an Interpolation
    std::int32_t order;          // a ResizeOrder
    std::int32_t is_mirrored;
    std::int32_t wants_scan;
    float box[4];  // of the crop: left, top, right, bottom
};

enum class Answer : std::int32_t { kMade, kNoIndex, kNoScanForm, kFault };

bool read_all(void* to, std::size_t bytes) {
    auto* at = static_cast<std::uint8_t*>(to);
    while (bytes > 0) {
        const ssize_t count = ::read(STDIN_FILENO, at, bytes);
        if (count <= 0) return false;
        at += count;
        bytes -= static_cast<std::size_t>(count);
    }
    return true;
}

void write_all(const void* from, std::size_t bytes) {
    const auto* at = static_cast<const std::uint8_t*>(from);
    while (bytes > 0) {
        const ssize_t count = ::write(STDOUT_FILENO, at, bytes);
        if (count <= 0) std::exit(1);
        at += count;
        bytes -= static_cast<std::size_t>(count);
    }
}

Region region_of(const std::int32_t (&sides)[4]) { return {sides[0], sides[1], sides[2], sides[3]}; }

// Leaves the sample in *wire and *device.
Answer make(const testing::ScanMaker& maker, const Request& request, std::vector<std::uint8_t>* wire,
            std::unique_ptr<testing::EmulatedScan>* device) {
    if (!maker.is_indexed()) return Answer::kNoIndex;
    testing::WantedSample wanted(region_of(request.crop), {request.to[0], request.to[1]});
    wanted.kept = region_of(request.kept);
    wanted.placement = {wanted.kept.width, wanted.kept.height, 0, 0};
    wanted.interpolation = static_cast<Interpolation>(request.interpolation);
    wanted.order = static_cast<ResizeOrder>(request.order);
    wanted.is_mirrored = request.is_mirrored != 0;
    wanted.box = {request.box[0], request.box[1], request.box[2], request.box[3]};
    *wire = maker.make(wanted);
    if (wire->empty()) return Answer::kNoScanForm;
    *device = std::make_unique<testing::EmulatedScan>(ByteSpan(wire->data(), wire->size()));
    return (*device)->run(64) == PieceFault::kNone ? Answer::kMade : Answer::kFault;
}

int answer_all() {
    std::vector<std::uint8_t> file;
    std::unique_ptr<testing::ScanMaker> maker;
    Request request;
    while (read_all(&request, sizeof request)) {
        if (request.file_bytes != 0) {
            file.resize(static_cast<std::size_t>(request.file_bytes));
            if (!read_all(file.data(), file.size())) return 1;
            maker = std::make_unique<testing::ScanMaker>(ByteSpan(file.data(), file.size()),
                                                         static_cast<jpeg::IndexLevel>(request.level));
        }
        std::vector<std::uint8_t> wire;
        std::unique_ptr<testing::EmulatedScan> device;
        const Answer answer = make(*maker, request, &wire, &device);
        write_all(&answer, sizeof answer);
        if (answer != Answer::kMade) continue;
        if (request.wants_scan == 0) {
            write_all(device->pixels().data(), device->pixels().size());
            continue;
        }
        const std::int32_t bytes[] = {static_cast<std::int32_t>(ScanScratch(device->sample().head()).end),
                                      static_cast<std::int32_t>(wire.size())};
        write_all(bytes, sizeof bytes);
        write_all(wire.data(), wire.size());
    }
    return 0;
}

}  // namespace
}  // namespace fastload

int main() { return fastload::answer_all(); }
