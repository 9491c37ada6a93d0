#include "base/features.h"

#include <gtest/gtest.h>

namespace verbena {
namespace {

TEST(FeaturesTest, EverythingIsOnUnlessNamed) {
    const Features all = parse_features("");
    EXPECT_TRUE(all.gso && all.gro && all.steering && all.memfd && all.local && all.view &&
                all.inline_progress && all.gather && all.fetch && all.copy && all.place && all.procmem &&
                all.membarrier && all.precedence);
    const Features some = parse_features("gso,memfd");
    EXPECT_FALSE(some.gso);
    EXPECT_TRUE(some.gro);
    EXPECT_TRUE(some.steering);
    EXPECT_FALSE(some.memfd);
    const Features none = parse_features("all");
    EXPECT_FALSE(none.gso || none.gro || none.steering || none.memfd || none.local || none.view ||
                 none.inline_progress || none.gather || none.fetch || none.copy || none.place ||
                 none.procmem || none.membarrier || none.precedence);
    EXPECT_EQ(
        feature_names(),
        "gso, gro, steering, memfd, local, view, inline, gather, fetch, copy, place, procmem, membarrier, "
        "precedence, all");
    EXPECT_FALSE(parse_features("fetch").fetch);
    EXPECT_FALSE(parse_features("copy").copy);
}

TEST(FeaturesTest, SeparatorsAndUnknownNames) {
    std::string_view unknown;
    const Features some = parse_features(" gro ,,inline, gros,x", &unknown);
    EXPECT_FALSE(some.gro);
    EXPECT_FALSE(some.inline_progress);
    EXPECT_TRUE(some.gso);
    EXPECT_EQ(unknown, "gros");
    unknown = {};
    parse_features("gso", &unknown);
    EXPECT_TRUE(unknown.empty());
}

}  // namespace
}  // namespace verbena
