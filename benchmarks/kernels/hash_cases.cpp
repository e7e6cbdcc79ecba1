#include <memory>
#include <random>

#include "base/content_hash.h"
#include "kernel_case.h"

namespace fastload::benchmarks {

void add_hash_cases(KernelCases* cases) {
    struct Hashing {
        HashKey key;
        Bytes contents = Bytes(110000);
        ContentHash hash;
    };
    const auto hashing = std::make_shared<Hashing>();
    std::mt19937_64 random(1);
    for (std::uint64_t& word : hashing->key.words) word = random();
    for (std::uint8_t& byte : hashing->contents) byte = static_cast<std::uint8_t>(random());
    cases->push_back({"block_sums, content hash", "byte", static_cast<double>(hashing->contents.size()),
                      [hashing](const KernelTable& kernels) {
                          use_block_sums(kernels.block_sums);
                          const Bytes& contents = hashing->contents;
                          hashing->hash = content_hash(hashing->key, {contents.data(), contents.size()});
                      },
                      [hashing] {
                          Bytes bytes;
                          for (const std::uint64_t half : {hashing->hash.low, hashing->hash.high}) {
                              for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<std::uint8_t>(half >> 8 * i));
                          }
                          return bytes;
                      }});
}

}  // namespace fastload::benchmarks
