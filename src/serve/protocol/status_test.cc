#include "serve/protocol/status.h"

#include <gtest/gtest.h>

#include <string>

namespace emblem {
namespace {

TEST(StatusTest, LongMessagesAreShortenedToWholeCharacters) {
  EXPECT_EQ(shortened("short"), "short");
  EXPECT_EQ(shortened(std::string(5'000'000, 'x')).size(), 2000u);
  for (size_t before = 1990; before < 2000; ++before) {
    const std::string plain(before, 'x');
    std::string text = plain;
    for (int i = 0; i < 10; ++i) text += "\u20ac";  // three bytes each
    const std::string_view result = shortened(text);
    EXPECT_GT(result.size(), 1997u);
    EXPECT_LE(result.size(), 2000u);
    EXPECT_EQ((result.size() - before) % 3, 0u) << before;
  }
}

}  // namespace
}  // namespace emblem
