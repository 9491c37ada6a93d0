#include "link/local_reference.h"

#include <gtest/gtest.h>

#include <vector>

namespace verbena::link {
namespace {

class Referred : public ::testing::Test {
   protected:
    bool read(std::vector<LocalReference> references) {
        return payload_.read({reinterpret_cast<const std::uint8_t*>(references.data()),
                              references.size() * sizeof(LocalReference)});
    }
    LocalPeer peer_;
    ReferredPayload payload_{peer_};
};

TEST_F(Referred, IsAsLongAsItsPieces) {
    ASSERT_TRUE(read({{0x1000, 100}, {0x2000, 50}}));
    EXPECT_EQ(payload_.length(), 150u);
    EXPECT_EQ(payload_.placed(), 0u);
    EXPECT_FALSE(read({}));
    EXPECT_FALSE(read({{0x1000, kLargestFetched}, {0x2000, 1}}));
    EXPECT_FALSE(read(std::vector<LocalReference>(kMaxReferences + 1, {0x1000, 1})));
}

TEST_F(Referred, MayHaveBeenWrittenAlready) {
    std::vector<LocalReference> references(kMaxReferences, {0x1000, 1});
    references.push_back({77, 0});
    ASSERT_TRUE(read(references));
    EXPECT_EQ(payload_.length(), kMaxReferences);
    EXPECT_EQ(payload_.placed(), 77u);
    references.push_back({78, 0});
    EXPECT_FALSE(read(references));
    EXPECT_FALSE(read({{77, 0}})) << "nothing is nowhere";
    ASSERT_TRUE(read({{0x1000, 1}}));
    EXPECT_EQ(payload_.placed(), 0u);
}

TEST(LocalReferenceTest, NonsenseIsRefused) {
    LocalPeer peer;
    ReferredPayload payload(peer);
    std::vector<LocalReference> references{{4096, 100}, {8192, 200}};
    const auto read = [&] {
        return payload.read({reinterpret_cast<const std::uint8_t*>(references.data()),
                             references.size() * sizeof(LocalReference)});
    };
    EXPECT_TRUE(read());
    EXPECT_EQ(payload.length(), 300u);
    references[1].length = kLargestFetched;
    EXPECT_FALSE(read());
    references[1].length = ~std::uint64_t{0};
    EXPECT_FALSE(read());
    references.assign(kMaxReferences + 1, {4096, 1});
    EXPECT_FALSE(read());
    EXPECT_FALSE(payload.read({}));
    const std::uint8_t half[24] = {};
    EXPECT_FALSE(payload.read(half));
}

}  // namespace
}  // namespace verbena::link
