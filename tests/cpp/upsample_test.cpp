#include "kernels/upsample.h"

#include "check.h"
#include "kernel_variants.h"

namespace fastload {
namespace {

// A strip of `columns` columns with one more on each side, copies of the outermost ones. Nothing else exists, so that
// the address sanitizer detects every other read.
struct Strip {
    std::vector<std::uint8_t> bytes;

    Strip(std::size_t columns, std::mt19937& random) : bytes((columns + 2) * 8) {
        for (std::uint8_t& byte : bytes)
            byte = static_cast<std::uint8_t>(random() % 4 == 0 ? 255 * (random() % 2) : random());
        copy_ends();
    }
    void copy_ends() {
        std::copy_n(bytes.begin() + 8, 8, bytes.begin());
        std::copy_n(bytes.end() - 16, 8, bytes.end() - 8);
    }
    std::size_t columns() const { return bytes.size() / 8 - 2; }
    const std::uint8_t* data() const { return bytes.data() + 8; }
    int at(std::ptrdiff_t x, int y) const { return bytes[static_cast<std::size_t>(8 + 8 * x + y)]; }
};

struct Strips {
    Strip above;
    Strip current;
    Strip below;

    Strips(std::size_t columns, std::mt19937& random)
        : above(columns, random), current(columns, random), below(columns, random) {}
    StripNeighbours neighbours() const { return {above.data(), current.data(), below.data()}; }
    // Row -1 to 8 of the middle strip.
    int at(std::ptrdiff_t x, int y) const {
        if (y < 0) return above.at(x, 7);
        return y > 7 ? below.at(x, 0) : current.at(x, y);
    }
    // The row that is mixed into row `y` of the upsampled 16.
    int far_row(int y) const { return y % 2 == 0 ? y / 2 - 1 : y / 2 + 1; }
};

constexpr std::uint8_t kGuard = 0xA7;

// A strip for results between guards, which need not be aligned.
class Output {
  public:
    Output(std::size_t columns, std::size_t offset)
        : columns_(columns), begin_(64 + offset), bytes_(begin_ + columns * 8 + 64, kGuard) {}

    std::uint8_t* data() { return bytes_.data() + begin_; }
    std::uint8_t at(std::size_t x, int y) const { return bytes_[begin_ + 8 * x + static_cast<std::size_t>(y)]; }
    bool has_kept_its_guards() const {
        const auto is_guard = [](std::uint8_t byte) { return byte == kGuard; };
        const auto begin = bytes_.begin() + static_cast<std::ptrdiff_t>(begin_);
        return std::all_of(bytes_.begin(), begin, is_guard) &&
               std::all_of(begin + static_cast<std::ptrdiff_t>(columns_ * 8), bytes_.end(), is_guard);
    }

  private:
    std::size_t columns_;
    std::size_t begin_;
    std::vector<std::uint8_t> bytes_;
};

void check_h2v1(const KernelTable& kernels, const Strip& strip) {
    const std::size_t columns = strip.columns();
    Output out(2 * columns, columns % 5);
    kernels.upsample_h2v1(strip.data(), out.data(), columns);
    for (std::size_t x = 0; x < columns; ++x) {
        const auto column = static_cast<std::ptrdiff_t>(x);
        for (int y = 0; y < 8; ++y) {
            const int near = 3 * strip.at(column, y);
            CHECK_EQUAL(out.at(2 * x, y), (near + strip.at(column - 1, y) + 1) >> 2);
            CHECK_EQUAL(out.at(2 * x + 1, y), (near + strip.at(column + 1, y) + 2) >> 2);
        }
    }
    // The outermost columns are copies, as in libjpeg.
    CHECK_EQUAL(out.at(0, 3), strip.at(0, 3));
    CHECK_EQUAL(out.at(2 * columns - 1, 3), strip.at(static_cast<std::ptrdiff_t>(columns) - 1, 3));
    CHECK(out.has_kept_its_guards());
}

// Two rows for one, and with `is_wide` two columns for one.
void check_v2(const KernelTable& kernels, const Strips& strips, std::size_t columns, bool is_wide) {
    const std::size_t wide = is_wide ? 2 : 1;
    Output upper(wide * columns, columns % 5);
    Output lower(wide * columns, columns % 3);
    const auto upsample = is_wide ? kernels.upsample_h2v2 : kernels.upsample_h1v2;
    upsample(strips.neighbours(), upper.data(), lower.data(), columns);
    for (std::size_t x = 0; x < wide * columns; ++x) {
        const auto near = static_cast<std::ptrdiff_t>(x / wide);
        const std::ptrdiff_t far = x % 2 == 0 ? near - 1 : near + 1;
        for (int y = 0; y < 16; ++y) {
            const auto sum = [&](std::ptrdiff_t column) {
                return 3 * strips.at(column, y / 2) + strips.at(column, strips.far_row(y));
            };
            const int expected = is_wide ? (3 * sum(near) + sum(far) + (x % 2 == 0 ? 8 : 7)) >> 4
                                         : (sum(near) + (y % 2 == 0 ? 1 : 2)) >> 2;
            CHECK_EQUAL((y < 8 ? upper : lower).at(x, y % 8), expected);
        }
    }
    CHECK(upper.has_kept_its_guards());
    CHECK(lower.has_kept_its_guards());
}

}  // namespace

TEST_CASE(upsample_kernels_weigh_three_to_one_in_each_direction) {
    std::mt19937 random(1);
    for (std::size_t columns = 1; columns <= 70; ++columns) {
        const Strips strips(columns, random);
        for_each_kernel_table([&](const KernelTable& kernels) {
            check_h2v1(kernels, strips.current);
            for (const bool is_wide : {false, true}) check_v2(kernels, strips, columns, is_wide);
        });
    }
}

TEST_CASE(upsample_h2v1_weighs_every_pair_of_samples) {
    std::mt19937 random(1);
    Strip strip(std::size_t{2} * 256 * 32, random);
    for (std::size_t i = 0; i < 65536; ++i) {
        strip.bytes[8 + i / 8 * 16 + i % 8] = static_cast<std::uint8_t>(i & 255);
        strip.bytes[8 + i / 8 * 16 + 8 + i % 8] = static_cast<std::uint8_t>(i >> 8);
    }
    strip.copy_ends();
    for_each_kernel_table([&strip](const KernelTable& kernels) { check_h2v1(kernels, strip); });
}

TEST_CASE(upsample_h1v2_reads_no_neighbour_columns) {
    for_each_kernel_table([](const KernelTable& kernels) {
        for (std::size_t columns = 1; columns <= 20; ++columns) {
            const std::vector<std::uint8_t> strip(columns * 8, 77);
            Output upper(columns, 0);
            Output lower(columns, 0);
            kernels.upsample_h1v2({strip.data(), strip.data(), strip.data()}, upper.data(), lower.data(), columns);
            CHECK_EQUAL(upper.at(columns - 1, 7), 77);
            CHECK_EQUAL(lower.at(0, 0), 77);
        }
    });
}

}  // namespace fastload
