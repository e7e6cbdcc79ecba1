// The kernels that decode on a device, one thread after another on the host: equal to the host's own decoder.
#include <climits>

#include "check.h"
#include "codec/jpeg/reconstruct.h"
#include "emulated_scan.h"
#include "kernels/color.h"
#include "kernels/idct.h"
#include "rounds.h"
#include "scan_maker.h"
#include "small_picture.h"
#include "test_images.h"

namespace fastload {
namespace {

using namespace testing;

constexpr ByteSpan kFile = {kSmallPicture, sizeof kSmallPicture};
constexpr int kLaunches[] = {1, 2, 7, 64, 5000};

int below(std::mt19937& random, int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); }

// A head whose parts fit each other, for an image of this size without a file.
ScanHead head_of(ImageSize size) {
    ScanHead head;
    head.num_components = 1;
    head.num_huffman_tables = 1;
    head.blocks_per_mcu = 1;
    head.components[0].width = size.width;
    head.components[0].height = size.height;
    head.right = (size.width + 7) / 8;
    head.bottom = (size.height + 7) / 8;
    head.region_width = size.width;
    head.region_height = size.height;
    head.x.count = size.width;
    head.y.count = size.height;
    head.placement = {size.width, size.height, 0, 0};
    return head;
}

// The wire of a head, with nothing in its tables.
std::vector<std::uint8_t> wire_of(ScanHead head) {
    head.bytes = static_cast<std::uint32_t>(ScanLayout(head).end);
    CHECK(is_valid_scan(head, head.bytes));
    std::vector<std::uint8_t> wire(head.bytes);
    std::memcpy(wire.data(), &head, sizeof head);
    return wire;
}

EmulatedScan emulated(const std::vector<std::uint8_t>& wire) { return EmulatedScan({wire.data(), wire.size()}); }

void check_block(const std::int16_t (&coefficients)[64], const std::uint16_t (&quantization)[64]) {
    alignas(64) std::int16_t cleared[64];
    alignas(64) std::uint16_t aligned[64];
    alignas(64) std::uint8_t strip[64];
    std::copy_n(coefficients, 64, cleared);
    std::copy_n(quantization, 64, aligned);
    inverse_dct_scalar(cleared, aligned, strip);
    std::uint8_t rows[10 * 8] = {};
    EmulatedScan::transform_block({coefficients, quantization, rows + 1, 10});
    for (int row = 0; row < 8; ++row) {
        CHECK_EQUAL(rows[10 * row], 0);
        CHECK_EQUAL(rows[10 * row + 9], 0);
        for (int column = 0; column < 8; ++column) CHECK_EQUAL(rows[10 * row + 1 + column], strip[8 * column + row]);
    }
}

TEST_CASE(device_inverse_dct_is_the_hosts_for_any_coefficients) {
    std::mt19937 random(1);
    constexpr std::int16_t kExtremes[] = {INT16_MIN, INT16_MIN + 1, -8193, -8192, -1, 0, 1, 8191, 8192, INT16_MAX};
    for (std::uint64_t round = 0; round < rounds(6000); ++round) {
        std::int16_t coefficients[64] = {};
        std::uint16_t quantization[64];
        const int filled = 1 + below(random, 64);
        const bool is_extreme = round % 2 == 0;
        const int largest = 1 << below(random, 16);
        for (int k = 0; k < filled; ++k) {
            coefficients[k] = is_extreme ? kExtremes[random() % std::size(kExtremes)]
                                         : static_cast<std::int16_t>(below(random, 2 * largest) - largest);
        }
        // Only row 0: Note [short first pass].
        for (int k = 0; round % 4 == 3 && k < 64; ++k) coefficients[k] = kNaturalOrder[k] < 8 ? coefficients[k] : 0;
        for (std::uint16_t& value : quantization) {
            value = static_cast<std::uint16_t>(is_extreme ? random() : 1 + random() % 255);
        }
        check_block(coefficients, quantization);
    }
}

// A frame of random sampling factors, or one that libjpeg does not take.
bool make_header(std::mt19937& random, jpeg::Header* header) {
    jpeg::Frame& frame = header->frame;
    frame.size = {1 + below(random, 70), 1 + below(random, 70)};
    frame.component_count = below(random, 4) == 0 ? 1 : 3;
    for (int i = 0; i < frame.component_count; ++i) {
        const int most = below(random, 4) == 0 ? 4 : 2;
        frame.components[i].horizontal = 1 + below(random, most);
        frame.components[i].vertical = 1 + below(random, most);
        header->first_scan.components[i].component = i;
    }
    header->first_scan.component_count = frame.component_count;
    header->color = frame.component_count == 1
                        ? jpeg::ColorModel::kGray
                        : (below(random, 3) == 0 ? jpeg::ColorModel::kRgb : jpeg::ColorModel::kYcc);
    return jpeg::complete_frame(DecodeLimits{}, 0, &frame).is_ok();
}

// Fills the blocks of a component in both memories with the same samples.
void fill_component(std::mt19937& random, const ScanSample& sample, int number, const jpeg::Reconstructor& host) {
    const ScanHead& head = sample.head();
    const WireComponent& component = head.components[number];
    const std::int32_t wide = blocks_wide(head, component);
    for (std::int32_t y = 0; y < blocks_high(head, component); ++y) {
        for (std::int32_t x = 0; x < wide; ++x) {
            std::uint8_t* const block =
                host.block(number, head.left * component.horizontal + x, head.top * component.vertical + y);
            for (int row = 0; row < 8; ++row) {
                for (int column = 0; column < 8; ++column) {
                    const auto value = static_cast<std::uint8_t>(random());
                    block[8 * column + row] = value;
                    sample.samples(component)[8 * wide * (8 * y + row) + 8 * x + column] = value;
                }
            }
        }
    }
}

TEST_CASE(device_upsampling_and_colour_are_the_hosts_for_any_frame_and_region) {
    std::mt19937 random(2);
    int num_frames = 0;
    bool has_seen[5] = {};
    for (std::uint64_t round = 0; round < rounds(3000); ++round) {
        jpeg::Header header;
        if (!make_header(random, &header)) continue;
        const Region region = any_region(header.frame.size, random);
        jpeg::Reconstructor host(*select_kernel_table());
        CHECK(host.prepare(header.frame, header.color, region).is_ok());
        ScanHead head = head_of({region.width, region.height});
        jpeg::describe_frame(header, region, &head);
        if (head.blocks_per_mcu > kScanBlocksPerMcu) continue;  // such a file has no index
        ++num_frames;
        EmulatedScan device = emulated(wire_of(head));
        for (int i = 0; i < header.frame.component_count; ++i) {
            has_seen[static_cast<int>(head.components[i].upsampling)] = true;
            fill_component(random, device.sample(), i, host);
        }
        for (std::int32_t row = host.window().top; row < host.window().bottom; ++row) host.mcu_row_is_complete(row);
        device.make_region(static_cast<std::uint64_t>(kLaunches[round % std::size(kLaunches)]));
        const std::vector<std::uint8_t> expected = pixels_of(host.view());
        CHECK(std::memcmp(expected.data(), device.region(), expected.size()) == 0);
    }
    CHECK(num_frames > static_cast<int>(rounds(3000) / 4));
    CHECK(std::all_of(std::begin(has_seen), std::end(has_seen), [](bool is_seen) { return is_seen; }));
}

TEST_CASE(device_colours_are_the_hosts_for_all_numbers) {
    constexpr int kSide = 256;
    ScanHead head = head_of({kSide, kSide});
    head.num_components = 3;
    head.blocks_per_mcu = 3;
    head.color = ScanColor::kYcc;
    for (std::uint32_t i = 0; i < 3; ++i) {
        head.components[i] = head.components[0];
        head.components[i].first_block = i * 32 * 32;
    }
    EmulatedScan device = emulated(wire_of(head));
    for (int y = 0; y < 256; y += has_all_rounds() ? 1 : 17) {
        std::vector<std::uint8_t> planes[3];
        for (int i = 0; i < kSide * kSide; ++i) {
            const std::uint8_t values[] = {static_cast<std::uint8_t>(y), static_cast<std::uint8_t>(i % 256),
                                           static_cast<std::uint8_t>(i / 256)};
            for (int plane = 0; plane < 3; ++plane) {
                planes[plane].push_back(values[plane]);
                device.sample().samples(head.components[plane])[i] = values[plane];
            }
        }
        ycc_to_rgb_scalar(planes[0].data(), planes[1].data(), planes[2].data(), planes[0].size());
        device.make_region(64);
        for (int plane = 0; plane < 3; ++plane) {
            CHECK(std::memcmp(planes[plane].data(), device.region() + plane * kSide * kSide, kSide * kSide) == 0);
        }
    }
}

// A resize of any size, of which any window is kept.
WantedSample any_resize(std::mt19937& random) {
    const int largest = below(random, 10) == 0 ? 300 : 40;
    const auto side = [&] { return 1 + below(random, largest); };
    WantedSample wanted({0, 0, side(), side()}, {side(), side()});
    if (below(random, 4) == 0) wanted.to.width = wanted.crop.width;
    if (below(random, 4) == 0) wanted.to.height = wanted.crop.height;
    if (below(random, 2) == 0) {
        const auto part = [&](int length, float* begin, float* end) {
            *begin = static_cast<float>(below(random, 8 * length)) / 8;
            *end = *begin + (static_cast<float>(length) - *begin) * static_cast<float>(1 + below(random, 16)) / 16;
        };
        part(wanted.crop.width, &wanted.box.left, &wanted.box.right);
        part(wanted.crop.height, &wanted.box.top, &wanted.box.bottom);
    }
    wanted.kept = any_region(wanted.to, random);
    constexpr Interpolation kFilters[] = {Interpolation::kBox, Interpolation::kBilinear, Interpolation::kBicubic};
    wanted.interpolation = kFilters[random() % 3];
    wanted.order = static_cast<ResizeOrder>(random() % 3);
    wanted.is_mirrored = random() % 2 != 0;
    wanted.placement.left = below(random, 4);
    wanted.placement.top = below(random, 4);
    wanted.placement.width = wanted.placement.left + wanted.kept.width + below(random, 4);
    wanted.placement.height = wanted.placement.top + wanted.kept.height + below(random, 4);
    return wanted;
}

// The sample that the host makes of the pixels that `wanted` resizes: [height, width, 3].
std::vector<std::uint8_t> expected_sample(const WantedSample& wanted, const StripImageView& region) {
    const ImageSize kept = {wanted.kept.width, wanted.kept.height};
    PlanarImage resized(kept.width, kept.height);
    const bool stays = wanted.stays();
    if (!stays) {
        ResizePlan plan;
        CHECK(plan.prepare(wanted.shape(), wanted.kept, wanted.interpolation, wanted.order).is_ok());
        std::size_t scratch_bytes = 0;
        CHECK(resize_scratch_bytes_scalar({region.width, region.height}, plan.job(), &scratch_bytes));
        AlignedBuffer scratch;
        CHECK(scratch.reserve(scratch_bytes).is_ok());
        resize_scalar(region, plan.job(), scratch.data(), resized.view());
    }
    const ScanPlacement& placement = wanted.placement;
    std::vector<std::uint8_t> sample;
    for (int y = -placement.top; y < placement.height - placement.top; ++y) {
        for (int x = -placement.left; x < placement.width - placement.left; ++x) {
            const bool is_inside = x >= 0 && x < kept.width && y >= 0 && y < kept.height;
            const int column = wanted.is_mirrored ? kept.width - 1 - x : x;
            for (int plane = 0; plane < 3; ++plane) {
                if (!is_inside) {
                    sample.push_back(0);
                } else {
                    sample.push_back(stays ? region.at(plane, column, y) : resized.at(plane, column, y));
                }
            }
        }
    }
    return sample;
}

TEST_CASE(device_resizes_are_pillows_for_any_size_filter_and_order) {
    std::mt19937 random(3);
    for (std::uint64_t round = 0; round < rounds(3000); ++round) {
        const WantedSample wanted = any_resize(random);
        const Region region = wanted.region();
        const StripImage image(region.width, region.height, static_cast<std::uint32_t>(round), round % 3 == 0);
        ScanHead head = head_of({region.width, region.height});
        CHECK(describe_resize(wanted.shape(), wanted.kept, wanted.interpolation, wanted.order, &head));
        head.is_mirrored = wanted.is_mirrored ? 1 : 0;
        head.placement = wanted.placement;
        EmulatedScan device = emulated(wire_of(head));
        const std::vector<std::uint8_t> pixels = pixels_of(image.view());
        std::copy(pixels.begin(), pixels.end(), device.region());
        device.resize(static_cast<std::uint64_t>(kLaunches[round % std::size(kLaunches)]));
        const std::vector<std::uint8_t> expected = expected_sample(wanted, image.view());
        CHECK(expected.size() == device.pixels().size() &&
              std::memcmp(expected.data(), device.pixels().data(), expected.size()) == 0);
    }
}

TEST_CASE(filters_that_need_a_sine_are_for_the_host) {
    ScanHead head;
    for (const Interpolation other : {Interpolation::kNearest, Interpolation::kHamming, Interpolation::kLanczos}) {
        CHECK(!describe_resize({{9, 9}, {5, 5}}, {0, 0, 5, 5}, other, ResizeOrder::kPillow13, &head));
    }
}

WantedSample any_sample(std::mt19937& random, ImageSize image) {
    WantedSample wanted(any_region(image, random), {1 + below(random, 60), 1 + below(random, 60)});
    wanted.kept = any_region(wanted.to, random);
    wanted.placement = {wanted.kept.width, wanted.kept.height, 0, 0};
    wanted.is_mirrored = random() % 2 != 0;
    return wanted;
}

TEST_CASE(device_samples_of_a_file_are_the_hosts_for_any_region_and_launch) {
    std::mt19937 random(4);
    for (const jpeg::IndexLevel level : {jpeg::IndexLevel::kRows, jpeg::IndexLevel::kDense}) {
        ScanMaker maker(kFile, level);
        CHECK(maker.is_indexed());
        for (std::uint64_t round = 0; round < rounds(400); ++round) {
            const WantedSample wanted = any_sample(random, maker.size());
            const std::vector<std::uint8_t> wire = maker.make(wanted);
            CHECK(!wire.empty());
            EmulatedScan device = emulated(wire);
            CHECK(device.run(kLaunches[round % std::size(kLaunches)]) == PieceFault::kNone);
            StripImageView region;
            CHECK(maker.decoder().decode(wanted.region(), &region).is_ok());
            const std::vector<std::uint8_t> expected = expected_sample(wanted, region);
            CHECK(expected.size() == device.pixels().size() &&
                  std::memcmp(expected.data(), device.pixels().data(), expected.size()) == 0);
        }
    }
}

TEST_CASE(only_samples_of_rows_that_the_index_knows_have_a_scan_form) {
    const ScanMaker whole(kFile, jpeg::IndexLevel::kRows);
    const ImageSize size = whole.size();
    int num_proven = 0;
    for (std::int32_t known = 1; known <= size.height; known += 7) {
        const ScanMaker maker(kFile, jpeg::IndexLevel::kRows, known);
        for (std::int32_t bottom = 1; bottom <= size.height; ++bottom) {
            const WantedSample wanted({0, 0, size.width, bottom}, {20, 20});
            // The chroma sample below the last one, if there is any, is needed, too.
            const std::int32_t last_sample = std::min((bottom - 1) / 2 + 1, size.height / 2 - 1);
            const bool is_proven = static_cast<std::int32_t>(maker.rows_known()) > last_sample / 8;
            num_proven += is_proven ? 1 : 0;
            CHECK(maker.make(wanted) == (is_proven ? whole.make(wanted) : std::vector<std::uint8_t>{}));
        }
    }
    CHECK(num_proven > 100);
}

// The wire of the whole small picture.
std::vector<std::uint8_t> whole_picture() {
    const ScanMaker maker(kFile, jpeg::IndexLevel::kDense);
    return maker.make(WantedSample({0, 0, maker.size().width, maker.size().height}, {40, 20}));
}

ScanHead& head_in(std::vector<std::uint8_t>& wire) { return *reinterpret_cast<ScanHead*>(wire.data()); }

ScanPlace& place_in(std::vector<std::uint8_t>& wire, std::uint32_t number) {
    return reinterpret_cast<ScanPlace*>(wire.data() + ScanLayout(head_in(wire)).places)[number];
}

TEST_CASE(longer_pieces_come_first_and_cover_the_window) {
    std::vector<std::uint8_t> wire = whole_picture();
    const ScanHead head = head_in(wire);
    CHECK_EQUAL(head.num_places, 15U);  // five rows of 17 MCUs, each with stops before 2 and 5
    int mcus = 0;
    int before = INT_MAX;
    for (std::uint32_t i = 0; i < head.num_places; ++i) {
        const ScanPlace& place = place_in(wire, i);
        const int length = place.end - place.first;
        CHECK(length <= before && place.end_bits != kNoScanPosition);
        before = length;
        mcus += length;
    }
    CHECK_EQUAL(mcus, 5 * 17);
}

TEST_CASE(a_piece_that_goes_wrong_says_how) {
    const std::vector<std::uint8_t> right = whole_picture();
    const auto fault_of = [&](auto change) {
        std::vector<std::uint8_t> wire = right;
        change(wire);
        return emulated(wire).decode_entropy(64);
    };
    CHECK(fault_of([](auto&) {}) == PieceFault::kNone);
    CHECK(fault_of([](auto& wire) { place_in(wire, 3).end_bits += 1; }) == PieceFault::kOtherEnd);
    CHECK(fault_of([](auto& wire) { place_in(wire, 3).end_predictions[2] += 1; }) == PieceFault::kOtherEnd);
    CHECK(fault_of([](auto& wire) { place_in(wire, 3).row = 5; }) == PieceFault::kOutside);
    CHECK(fault_of([](auto& wire) { place_in(wire, 3).first = 17; }) == PieceFault::kOutside);
    CHECK(fault_of([](auto& wire) { place_in(wire, 3).end = 18; }) == PieceFault::kOtherEnd);
    CHECK(fault_of([](auto& wire) { place_in(wire, 3).first = place_in(wire, 3).end; }) == PieceFault::kOutside);
    CHECK(fault_of([](auto& wire) {
              std::memset(wire.data() + ScanLayout(head_in(wire)).huffman, 0, sizeof(ScanHuffmanTable));
          }) == PieceFault::kNoCode);
    // A symbol of fifteen zeros and a number again and again.
    CHECK(fault_of([](auto& wire) {
              auto* const tables = reinterpret_cast<ScanHuffmanTable*>(wire.data() + ScanLayout(head_in(wire)).huffman);
              for (int i = 0; i < head_in(wire).num_huffman_tables; ++i) {
                  std::memset(tables[i].symbols, 0xF1, sizeof tables[i].symbols);
              }
          }) == PieceFault::kTooManyNumbers);
}

TEST_CASE(a_wrong_index_is_a_fault_wherever_a_sample_relies_on_it) {
    const ImageSize size = ScanMaker(kFile, jpeg::IndexLevel::kDense).size();
    const Region regions[] = {{0, 0, size.width, size.height}, {100, 30, 40, 30}, {250, 0, 22, 60}, {40, 40, 9, 9}};
    const std::size_t num_checkpoints = ScanMaker(kFile, jpeg::IndexLevel::kDense).num_checkpoints();
    int num_faults = 0;
    for (const Region& region : regions) {
        const WantedSample wanted(region, {12, 10});
        EmulatedScan right = emulated(ScanMaker(kFile, jpeg::IndexLevel::kDense).make(wanted));
        CHECK(right.run(64) == PieceFault::kNone);
        for (std::size_t i = 0; i < num_checkpoints; ++i) {
            ScanMaker maker(kFile, jpeg::IndexLevel::kDense);
            maker.spoil(i);
            EmulatedScan device = emulated(maker.make(wanted));
            if (device.run(64) != PieceFault::kNone) {
                ++num_faults;
            } else {
                CHECK(std::equal(right.pixels().begin(), right.pixels().end(), device.pixels().begin()));
            }
        }
        if (region.width == size.width) CHECK_EQUAL(num_faults, static_cast<int>(num_checkpoints));
    }
}

// Whatever a head holds, if it is accepted, the kernels stay inside of the memory that it asks for.
TEST_CASE(heads_that_are_accepted_are_safe) {
    std::mt19937 random(5);
    const std::vector<std::uint8_t> right = whole_picture();
    int accepted = 0;
    for (std::uint64_t round = 0; round < rounds(4000); ++round) {
        std::vector<std::uint8_t> wire = right;
        for (int changes = 1 + below(random, 3); changes > 0; --changes) {
            const auto at = static_cast<std::size_t>(below(random, 196));
            wire[at] = static_cast<std::uint8_t>(below(random, 2) == 0 ? wire[at] + below(random, 5) - 2 : random());
        }
        if (!is_valid_scan(head_in(wire), wire.size())) continue;
        if (ScanScratch(head_in(wire)).end + num_scan_pixel_bytes(head_in(wire)) > (std::size_t{1} << 22)) continue;
        ++accepted;
        emulated(wire).run(7);
    }
    CHECK(accepted > 20);
}

TEST_CASE(heads_whose_parts_do_not_fit_are_refused) {
    const std::vector<std::uint8_t> right = whole_picture();
    const auto is_accepted = [&](auto change) {
        std::vector<std::uint8_t> wire = right;
        change(head_in(wire));
        return is_valid_scan(head_in(wire), wire.size());
    };
    CHECK(is_accepted([](ScanHead&) {}));
    CHECK(!is_accepted([](ScanHead& head) { head.revision += 1; }));
    CHECK(!is_accepted([](ScanHead& head) { head.bytes += 16; }));
    CHECK(!is_accepted([](ScanHead& head) { head.num_places += 1; }));
    CHECK(!is_accepted([](ScanHead& head) { head.right = INT32_MIN; }));
    CHECK(!is_accepted([](ScanHead& head) { head.bottom = 8193; }));
    CHECK(!is_accepted([](ScanHead& head) { head.filter = static_cast<ScanFilter>(3); }));
    CHECK(!is_accepted([](ScanHead& head) { head.y.origin = 1; }));
    CHECK(!is_accepted([](ScanHead& head) { head.placement.top = 1; }));
    CHECK(!is_accepted([](ScanHead& head) { head.placement.height = head.placement.width = kScanMaxSide; }));
    CHECK(!is_accepted([](ScanHead& head) { head.data_bytes = (1U << 26) + 1; }));
    CHECK(!is_accepted([](ScanHead& head) { head.num_huffman_tables = 7; }));
    CHECK(!is_accepted([](ScanHead& head) { head.components[2].ac_table = head.num_huffman_tables; }));
    CHECK(!is_accepted([](ScanHead& head) { head.components[1].first_block += 1; }));
    CHECK(!is_accepted([](ScanHead& head) { head.components[0].horizontal = 0; }));
    CHECK(!is_accepted([](ScanHead& head) { head.components[1].width += 8 * 17; }));
    CHECK(!is_accepted([](ScanHead& head) { head.color = ScanColor::kGray; }));
    CHECK(!is_accepted([](ScanHead& head) { head.left = 1; }));
    CHECK(!is_accepted([](ScanHead& head) { head.bottom = head.top; }));
    CHECK(!is_accepted([](ScanHead& head) { head.region_width += 1; }));
    CHECK(!is_accepted([](ScanHead& head) { head.region_top = -1; }));
    CHECK(!is_accepted([](ScanHead& head) { head.x.taps = 0; }));
    CHECK(!is_accepted([](ScanHead& head) { head.x.count = head.x.to + 1; }));
    CHECK(!is_accepted([](ScanHead& head) { head.y.begin = std::nanf(""); }));
    CHECK(!is_accepted([](ScanHead& head) { head.placement.left = 1; }));
}

}  // namespace
}  // namespace fastload
