#include "core/text/utf8.h"

#include <gtest/gtest.h>

namespace emblem {
namespace {

constexpr size_t kNone = std::string_view::npos;

TEST(Utf8, FindsTheFirstByteThatIsNotUtf8) {
  EXPECT_EQ(find_invalid_utf8(""), kNone);
  EXPECT_EQ(find_invalid_utf8("K\xc3\xb6ln \xe2\x82\xac \xf0\x9f\x98\x80"), kNone);
  EXPECT_EQ(find_invalid_utf8("K\xf6ln"), 1u) << "Latin-1";
  EXPECT_EQ(find_invalid_utf8("caf\xe9"), 3u);
  EXPECT_EQ(find_invalid_utf8("caf\xe9", true), kNone) << "may be cut";
  EXPECT_EQ(find_invalid_utf8("ab\x80"), 2u) << "the euro sign of Windows-1252";
  EXPECT_EQ(find_invalid_utf8("ab\xed\xa0\x80"), 2u) << "a surrogate";
  EXPECT_EQ(find_invalid_utf8("ab\xe4,\xf6"), 2u);
}

TEST(Utf8, ASequenceThatTheEndOfAPartCutsIsNotAnError) {
  const std::string_view text = "a\xf0\x9f\x98\x80";
  for (size_t size = 1; size <= text.size(); ++size)
    EXPECT_EQ(find_invalid_utf8(text.substr(0, size), true), kNone) << size;
}

TEST(Utf8, CharactersAreWrittenWithOneToFourBytes) {
  std::string text;
  for (const uint32_t character : {0x4bu, 0xf6u, 0x20acu, 0x1f600u}) append_utf8(character, text);
  EXPECT_EQ(text, "K\xc3\xb6\xe2\x82\xac\xf0\x9f\x98\x80");
}

}  // namespace
}  // namespace emblem
