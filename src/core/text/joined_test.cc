#include "core/text/joined.h"

#include <gtest/gtest.h>

#include <vector>

namespace emblem {
namespace {

TEST(Joined, ValuesStandSideBySide) {
  EXPECT_EQ(joined(std::vector<std::string>{}), "");
  EXPECT_EQ(joined(std::vector<std::string>{"a"}), "a");
  EXPECT_EQ(joined(std::vector<std::string>{"a", "b", "c"}), "a, b, c");
  EXPECT_EQ(joined(std::vector<int>{3, 4}, " x "), "3 x 4");
}

TEST(Joined, ShowsMembersAndResultsOfFunctions) {
  struct Named {
    std::string name;
    std::string quoted() const { return "\"" + name + "\""; }
  };
  const std::vector<Named> values{{"a"}, {"b"}};
  EXPECT_EQ(joined(values, ", ", &Named::name), "a, b");
  EXPECT_EQ(joined(values, ", ", &Named::quoted), "\"a\", \"b\"");
}

}  // namespace
}  // namespace emblem
