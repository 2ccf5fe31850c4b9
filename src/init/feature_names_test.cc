#include "init/feature_names.h"

#include <gmock/gmock.h>

namespace emblem {
namespace {

using testing::ElementsAre;

TEST(FeatureNames, NamesThatFilesMayHaveAreKept) {
  EXPECT_THAT(feature_names_for({"age", "a.b-c_1", "größe"}),
              ElementsAre("age", "a.b-c_1", "größe"));
}

TEST(FeatureNames, OthersAreChangedAndStayDifferent) {
  EXPECT_THAT(feature_names_for({"a b", "a/b", "a_b", " x ", ".dot", "\xff"}),
              ElementsAre("a_b_2", "a_b_3", "a_b", "x", "_.dot", "_"));
  const std::string name = feature_names_for({std::string(300, 'n')})[0];
  EXPECT_EQ(name.size(), 100u);
}

TEST(FeatureNames, TextIsQuotedForProtobufAndShell) {
  EXPECT_EQ(proto_string("a\"b\\c\td\x01"), "\"a\\\"b\\\\c\\td\\001\"");
  EXPECT_EQ(proto_string("ü"), "\"ü\"");
  EXPECT_EQ(proto_string("\xff"), "\"\\377\"");
  EXPECT_EQ(shell_word("data/a.csv"), "data/a.csv");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
}

}  // namespace
}  // namespace emblem
