#include "base/content_hash.h"

#include "check.h"
#include "hooked_calls.h"

namespace fastload {
namespace {

using Bytes = std::vector<std::uint8_t>;

// Numbers of splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014) from a seed on.
HashKey key_of(std::uint64_t seed) {
    HashKey key;
    for (std::uint64_t& word : key.words) {
        std::uint64_t z = seed += 0x9E3779B97F4A7C15U;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
        z = (z ^ z >> 27) * 0x94D049BB133111EBU;
        word = z ^ z >> 31;
    }
    return key;
}

ContentHash hash_of(const HashKey& key, const Bytes& bytes) { return content_hash(key, {bytes.data(), bytes.size()}); }

Bytes random_bytes(std::size_t size, std::mt19937_64* random) {
    Bytes bytes(size);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>((*random)());
    return bytes;
}

struct Vector {
    std::uint64_t seed;  // of key_of()
    std::size_t length;
    std::uint64_t low, high;
};

// The hash of the first bytes of a sequence, made by the definition in Note [content hash] with integers of any size.
constexpr Vector kVectors[] = {
    {1, 0, 0x232925f5fa01f9ffU, 0x4786bb17c7f46d9eU},      {1, 1, 0x2848513522894cdeU, 0xe055d15b6a16a8f4U},
    {1, 7, 0x79646ce0f92d5108U, 0xa617835a65bfa7aeU},      {1, 8, 0x7639c2dc09c8e4d7U, 0x8caaa16785a202c1U},
    {1, 15, 0x1529363512505dbdU, 0x03689635b4cf0583U},     {1, 16, 0x3d1aa8172596f7e2U, 0xe0eb29bef3f341f1U},
    {1, 17, 0xbc8fe9fc109db5d4U, 0x3419777591879b83U},     {1, 127, 0x2b274b4b90f3606bU, 0x42c3141ae07f1b5dU},
    {1, 128, 0x9d87e7aa9928f147U, 0x46205b67de40dbe9U},    {1, 129, 0x56b0bdf8b9429342U, 0x17621a0817a7d1b0U},
    {1, 4095, 0x33d0bff6d7f42c5eU, 0xe5046af86797b5c3U},   {1, 4096, 0x2b43bf681d8e89f0U, 0x8cce8df8c4974485U},
    {1, 4097, 0x4300be1135682187U, 0xb434a0a7f6bf0917U},   {1, 12293, 0xa99da0e81eeee275U, 0x980938d99364b088U},
    {1, 110000, 0x47db5666f8450d1cU, 0x5f5785429e280e24U}, {2, 0, 0xc128fe65f305a49fU, 0x5840b78b8d4539c0U},
    {2, 1, 0x2e5d32a3b2e87b0fU, 0x62d700e477344ecdU},      {2, 7, 0x6a9f65592e25ba8aU, 0xbff1bf227fe12b31U},
    {2, 8, 0x727f5b219b425460U, 0xc87bcd5f8707c9cfU},      {2, 15, 0x23e6f29aafcfa4e6U, 0xf8a0a7f17e8b722cU},
    {2, 16, 0xf24afb457126f886U, 0x35a6c75ff2326b48U},     {2, 17, 0x75e557e179b976bfU, 0xe0c508825f1c7608U},
    {2, 127, 0x5418a452d97cd74fU, 0xeb8217eb07664c5eU},    {2, 128, 0xa470142be045087fU, 0x89e05f18b69445feU},
    {2, 129, 0xb82360259f49845bU, 0x9e03c1e92d467f06U},    {2, 4095, 0x0281f27030db8d7aU, 0x123a4ca38bd8af17U},
    {2, 4096, 0x8cb8b5fbee830be1U, 0xb71bcca7fc517616U},   {2, 4097, 0x664eeb90a2bb233eU, 0x4789108f82664f38U},
    {2, 12293, 0xc456fafa851a5a2dU, 0xad8f5f5aaaf521e3U},  {2, 110000, 0x96fe4b02483c7a8dU, 0x1465e7066033cc11U},
};

}  // namespace

TEST_CASE(content_hash_has_the_values_of_its_definition) {
    Bytes bytes(110000);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * i + (i >> 8) * 37 + i / 3);
    for (const Vector& vector : kVectors) {
        const ContentHash hash = content_hash(key_of(vector.seed), {bytes.data(), vector.length});
        CHECK_EQUAL(hash.low, vector.low);
        CHECK_EQUAL(hash.high, vector.high);
    }
    CHECK(content_hash(key_of(1), {}) == (ContentHash{kVectors[0].low, kVectors[0].high}));
}

// For each bit of the contents and each of the hash, over many contents: the second changes with the first in half of
// the trials. With 700 trials a deviation of 0.1 is 5.3 standard deviations, and there are up to 55,296 pairs.
TEST_CASE(content_hash_bits_change_with_each_bit_of_the_contents_in_half_of_the_cases) {
    constexpr int kTrials = 700;
    std::mt19937_64 random(2);
    const HashKey key = key_of(4);
    for (const std::size_t size : {8U, 16U, 37U, 54U}) {
        std::vector<int> changes(8 * size * 128);
        for (int trial = 0; trial < kTrials; ++trial) {
            Bytes bytes = random_bytes(size, &random);
            const ContentHash hash = hash_of(key, bytes);
            for (std::size_t bit = 0; bit < 8 * size; ++bit) {
                Bytes other = bytes;
                other[bit / 8] = static_cast<std::uint8_t>(other[bit / 8] ^ 1U << bit % 8);
                const ContentHash changed = hash_of(key, other);
                const std::uint64_t halves[] = {changed.low ^ hash.low, changed.high ^ hash.high};
                for (std::size_t i = 0; i < 128; ++i)
                    changes[128 * bit + i] += static_cast<int>(halves[i / 64] >> i % 64 & 1);
            }
        }
        const auto [least, most] = std::minmax_element(changes.begin(), changes.end());
        CHECK(*least > 0.4 * kTrials);
        CHECK(*most < 0.6 * kTrials);
    }
}

// At point 1 the polynomial of these sums and a length of 32 bytes is the prime itself: zero, as for no bytes.
TEST_CASE(content_hash_takes_the_polynomial_modulo_the_prime) {
    HashKey key = key_of(15);
    key.words[HashKey::kBlockKeyWords] = 1;
    key.words[HashKey::kBlockKeyWords + 1] = 0;
    use_block_sums([](const std::uint64_t*, ByteSpan, Chains) noexcept -> BlockSums {
        return {{~std::uint64_t{0} - 32, (std::uint64_t{1} << 63) - 1, 0, 0}};
    });
    const ContentHash hash = hash_of(key, Bytes(32));
    use_block_sums(block_sums_scalar);
    CHECK_EQUAL(hash.low, hash_of(key, {}).low);
}

TEST_CASE(content_hash_does_not_depend_on_alignment) {
    std::mt19937_64 random(8);
    const HashKey key = key_of(13);
    for (const std::size_t size : {0U, 1U, 7U, 16U, 130U, 4095U, 4097U, 9003U}) {
        const Bytes bytes = random_bytes(size, &random);
        const ContentHash hash = hash_of(key, bytes);
        for (std::size_t offset = 0; offset < 64; ++offset) {
            // An exact copy, so that the address sanitizer detects a read after the end.
            const std::unique_ptr<std::uint8_t[]> moved(new std::uint8_t[offset + size]);
            std::copy(bytes.begin(), bytes.end(), moved.get() + offset);
            CHECK(content_hash(key, {moved.get() + offset, size}) == hash);
            CHECK_EQUAL(content_sum(key, {moved.get() + offset, size}), hash.low);
        }
    }
}

TEST_CASE(random_hash_keys_have_no_word_in_common) {
    std::vector<std::uint64_t> words;
    for (int i = 0; i < 20; ++i) {
        HashKey key = {};
        CHECK(HashKey::random(&key).is_ok());
        words.insert(words.end(), key.words.begin(), key.words.end());
    }
    std::sort(words.begin(), words.end());
    CHECK(std::adjacent_find(words.begin(), words.end()) == words.end());
}

TEST_CASE(random_hash_key_is_whole_when_the_system_interrupts_and_gives_little) {
    HashKey key = {};
    testing::scripted_random_calls() = {{0, EINTR}, {256, 0}, {0, EINTR}, {1, 0}, {0, 0}, {300, 0}, {0, EINTR}};
    CHECK(HashKey::random(&key).is_ok());
    CHECK(testing::scripted_random_calls().empty());
    CHECK_EQUAL(std::count(key.words.begin(), key.words.end(), 0U), 0);
}

TEST_CASE(hash_key_stays_as_it_was_if_the_system_gives_no_random_numbers) {
    for (const std::size_t given : {0U, 100U}) {
        HashKey key = key_of(14);
        testing::scripted_random_calls() = {{given, 0}, {0, ENOSYS}};
        const Status status = HashKey::random(&key);
        CHECK_EQUAL(static_cast<int>(status.code), static_cast<int>(StatusCode::kReadFailed));
        CHECK_EQUAL(status.system_errno, ENOSYS);
        CHECK(std::strcmp(status.detail, "the system gives no random numbers") == 0);
        CHECK(key.words == key_of(14).words);
    }
}

}  // namespace fastload
