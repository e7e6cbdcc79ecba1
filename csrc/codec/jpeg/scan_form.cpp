#include "codec/jpeg/scan_form.h"

#include <algorithm>
#include <cstring>

#include "codec/jpeg/reconstruct.h"
#include "codec/jpeg/scan_grid.h"

namespace fastload::jpeg {
namespace {

static_assert(kMaxComponents == kScanComponents && kMaxBlocksPerMcu == kScanBlocksPerMcu);

// The wire's enums have the values of the decoder's.
constexpr ScanColor on_wire(ColorModel color) { return static_cast<ScanColor>(color); }
constexpr ScanUpsampling on_wire(Upsampling upsampling) { return static_cast<ScanUpsampling>(upsampling); }
static_assert(on_wire(ColorModel::kGray) == ScanColor::kGray && on_wire(ColorModel::kYcc) == ScanColor::kYcc &&
              on_wire(ColorModel::kRgb) == ScanColor::kRgb);
static_assert(on_wire(Upsampling::kNone) == ScanUpsampling::kNone &&
              on_wire(Upsampling::kH2v1) == ScanUpsampling::kH2v1 &&
              on_wire(Upsampling::kH1v2) == ScanUpsampling::kH1v2 &&
              on_wire(Upsampling::kH2v2) == ScanUpsampling::kH2v2 &&
              on_wire(Upsampling::kReplicate) == ScanUpsampling::kReplicate);

// The different Huffman tables of a scan, in the order in which its components name them.
class HuffmanTables {
  public:
    explicit HuffmanTables(const Header& header) noexcept {
        const Scan& scan = header.first_scan;
        for (int i = 0; i < scan.component_count; ++i) {
            dc_[i] = add(header.tables.dc[scan.components[i].dc_slot]);
            ac_[i] = add(header.tables.ac[scan.components[i].ac_slot]);
        }
    }
    std::uint8_t count() const noexcept { return count_; }
    std::uint8_t dc(int component) const noexcept { return dc_[component]; }
    std::uint8_t ac(int component) const noexcept { return ac_[component]; }

    std::uint8_t* write(std::uint8_t* to) const noexcept {
        for (std::uint8_t i = 0; i < count_; ++i, to += sizeof(ScanHuffmanTable)) {
            std::memcpy(to, tables_[i]->code_counts, sizeof(ScanHuffmanTable::counts));
            std::memcpy(to + sizeof(ScanHuffmanTable::counts), tables_[i]->symbols, sizeof(ScanHuffmanTable::symbols));
        }
        return to;
    }

  private:
    std::uint8_t add(const HuffmanSpec& table) noexcept {
        const auto is_same = [&table](const HuffmanSpec* other) {
            return std::memcmp(other->code_counts, table.code_counts, sizeof table.code_counts) == 0 &&
                   std::memcmp(other->symbols, table.symbols, sizeof table.symbols) == 0;
        };
        const auto found = std::find_if(tables_, tables_ + count_, is_same);
        const auto number = static_cast<std::uint8_t>(found - tables_);
        if (number == count_) tables_[count_++] = &table;
        return number;
    }

    std::uint8_t count_ = 0;
    const HuffmanSpec* tables_[kScanHuffmanTables] = {};
    std::uint8_t dc_[kMaxComponents] = {};
    std::uint8_t ac_[kMaxComponents] = {};
};

// Calls take(place, position of the end) for each place of the window, in the order of the stream. Positions are of the
// whole scan's data.
template <typename Take>
void for_each_place(const IndexedScan& scan, const ScanHead& head, Take take) noexcept {
    const CheckpointRule& rule = scan.index.rule();
    const std::uint32_t wide = scan.index.shape().mcus_wide;
    const auto left = static_cast<std::uint32_t>(head.left);
    const auto right = static_cast<std::uint32_t>(head.right);
    for (std::int32_t row = head.top; row < head.bottom; ++row) {
        const std::uint32_t row_begin = static_cast<std::uint32_t>(row) * wide;
        std::size_t next = rule.count_through(row_begin + left);
        CheckpointRule::Place place = rule.place(next);
        Checkpoint from = next == 0 ? Checkpoint{} : scan.index[next - 1];
        std::uint32_t begin = next == 0 ? 0 : rule.mcu(next - 1) - row_begin;
        const bool must_land = scan.index.level() == IndexLevel::kDense || row + 1 == head.bottom;
        bool has_landed = false;
        while (begin < right) {
            const std::uint32_t end = rule.mcu(place) - row_begin;
            const Checkpoint& to = scan.index[next];
            const bool lands = end <= right || (must_land && !has_landed);
            has_landed = has_landed || lands;
            ScanPlace found = {};
            std::copy_n(from.predictions, kMaxComponents, found.predictions);
            std::copy_n(to.predictions, kMaxComponents, found.end_predictions);
            found.row = static_cast<std::uint16_t>(row);
            found.first = static_cast<std::uint16_t>(begin);
            found.end = static_cast<std::uint16_t>(lands ? end : right);
            found.end_bits = lands ? 0 : kNoScanPosition;
            take(found, from.position_bits, to.position_bits);
            from = to;
            begin = end;
            rule.advance(&place);
            ++next;
        }
    }
}

// The bytes of the data that a window needs.
struct NeededBytes {
    std::size_t first = SIZE_MAX;  // a multiple of 16
    std::size_t end = 0;
    std::uint32_t num_places = 0;

    NeededBytes(const IndexedScan& scan, const ScanHead& head) noexcept {
        for_each_place(scan, head, [&](const ScanPlace&, std::uint64_t from_bits, std::uint64_t to_bits) {
            first = std::min<std::size_t>(first, from_bits / 128 * 16);
            end = std::max<std::size_t>(end, (to_bits + 7) / 8);
            ++num_places;
        });
        end = std::min(end, scan.data.size);
    }
};

}  // namespace

void describe_frame(const Header& header, const Region& region, ScanHead* head) noexcept {
    const Frame& frame = header.frame;
    const ScanGrid grid(frame, header.first_scan, decode_window(frame, region));
    const HuffmanTables huffman(header);
    head->num_components = static_cast<std::uint8_t>(frame.component_count);
    head->num_huffman_tables = huffman.count();
    head->color = on_wire(header.color);
    head->left = grid.window.left;
    head->right = grid.window.right;
    head->top = grid.window.top;
    head->bottom = grid.window.bottom;
    head->region_left = region.left;
    head->region_top = region.top;
    head->region_width = region.width;
    head->region_height = region.height;
    head->blocks_per_mcu = 0;
    const auto mcus = static_cast<std::uint32_t>(num_scan_mcus(*head));
    for (int i = 0; i < frame.component_count; ++i) {
        const FrameComponent& facts = frame.components[i];
        const BlocksOfMcu blocks(frame, header.first_scan, i);
        WireComponent& component = head->components[i];
        component.horizontal = static_cast<std::uint8_t>(blocks.horizontal);
        component.vertical = static_cast<std::uint8_t>(blocks.vertical);
        component.expand_x = static_cast<std::uint8_t>(facts.horizontal_expansion);
        component.expand_y = static_cast<std::uint8_t>(facts.vertical_expansion);
        component.upsampling = on_wire(upsampling_of(facts));
        component.dc_table = huffman.dc(i);
        component.ac_table = huffman.ac(i);
        component.width = facts.width;
        component.height = facts.height;
        component.first_block = head->blocks_per_mcu * mcus;
        head->blocks_per_mcu = static_cast<std::uint8_t>(head->blocks_per_mcu + blocks.count());
    }
}

void describe_scan(const IndexedScan& scan, const Region& region, ScanHead* head) noexcept {
    describe_frame(scan.header, region, head);
    const NeededBytes needed(scan, *head);
    head->num_places = needed.num_places;
    // is_valid_scan() refuses more than these numbers hold.
    head->data_bytes = static_cast<std::uint32_t>(std::min<std::size_t>(needed.end - needed.first, UINT32_MAX));
    head->bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(ScanLayout(*head).end, UINT32_MAX));
}

void write_scan(const IndexedScan& scan, const ScanHead& head, Span<std::uint8_t> wire) noexcept {
    const Header& header = scan.header;
    const NeededBytes needed(scan, head);
    std::memcpy(wire.data(), &head, sizeof head);
    std::uint8_t* to = wire.data() + sizeof head;
    for (int i = 0; i < head.num_components; ++i, to += 128) {
        const int slot = header.frame.components[i].quantization_slot;
        std::memcpy(to, header.tables.quantization[slot].values, 128);
    }
    to = HuffmanTables(header).write(to);
    auto* const places = reinterpret_cast<ScanPlace*>(to);
    ScanPlace* place = places;
    const std::uint64_t origin_bits = std::uint64_t{needed.first} * 8;
    for_each_place(scan, head, [&](ScanPlace found, std::uint64_t from_bits, std::uint64_t to_bits) {
        found.position_bits = static_cast<std::uint32_t>(from_bits - origin_bits);
        if (found.end_bits != kNoScanPosition) found.end_bits = static_cast<std::uint32_t>(to_bits - origin_bits);
        *place++ = found;
    });
    // The longest pieces first, so that the threads of a warp have pieces of about the same length.
    std::sort(places, place, [](const ScanPlace& a, const ScanPlace& b) {
        const int length_a = a.end - a.first;
        const int length_b = b.end - b.first;
        return length_a != length_b ? length_a > length_b : a.position_bits < b.position_bits;
    });
    const ScanLayout layout(head);
    auto* const places_end = reinterpret_cast<std::uint8_t*>(place);
    std::memset(places_end, 0, static_cast<std::size_t>(wire.data() + layout.data - places_end));
    std::memcpy(wire.data() + layout.data, scan.data.bytes + needed.first, head.data_bytes);
    std::memset(wire.data() + layout.data + head.data_bytes, 0, layout.end - layout.data - head.data_bytes);
}

}  // namespace fastload::jpeg
