#include "data/source/objects/md5.h"

#include <gtest/gtest.h>

namespace emblem {
namespace {

std::string md5_text(const std::string& text) {
  Md5 sum;
  sum.add(text.data(), text.size());
  return sum.hex();
}

TEST(Md5, IsThatOfTheStandard) {  // RFC 1321, A.5
  EXPECT_EQ(md5_text(""), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(md5_text("a"), "0cc175b9c0f1b6a831c399e269772661");
  EXPECT_EQ(md5_text("abc"), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(md5_text("message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
  EXPECT_EQ(md5_text("abcdefghijklmnopqrstuvwxyz"), "c3fcd3d76192e4007dfb496cca67e13b");
  EXPECT_EQ(
      md5_text("12345678901234567890123456789012345678901234567890123456789012345678901234567890"),
      "57edf4a22be3c955ac49da2e2107b67a");
}

TEST(Md5, DoesNotDependOnThePiecesThatAreAdded) {
  const std::string text(1000, 'x');
  for (const size_t piece : {1u, 7u, 63u, 64u, 65u, 999u}) {
    Md5 sum;
    for (size_t at = 0; at < text.size(); at += piece)
      sum.add(text.data() + at, std::min(piece, text.size() - at));
    EXPECT_EQ(sum.hex(), md5_text(text)) << piece;
  }
}

TEST(Md5, IsTheEtagOfObjectsThatWereWrittenByOneRequestOrInParts) {
  const std::string digits = "900150983cd24fb0d6963f7d28e17f72";
  EXPECT_EQ(md5_of_etag(digits), digits);
  EXPECT_EQ(md5_of_etag('"' + digits + '"'), digits);
  EXPECT_EQ(md5_of_etag("\"900150983CD24FB0D6963F7D28E17F72\""), digits);
  EXPECT_EQ(md5_of_etag("\"900150983CD24FB0D6963F7D28E17F72-12\""), digits + "-12");
  for (const std::string other :
       {"", "\"\"", "\"900150983cd24fb0d6963f7d28e17f72-\"",
        "\"900150983cd24fb0d6963f7d28e17f72-0\"", "\"900150983cd24fb0d6963f7d28e17f72-1x\"",
        "\"900150983cd24fb0d6963f7d28e17f72-123456\"", "W/\"900150983cd24fb0d6963f7d28e17f72\"",
        "t1700000000", "\"900150983cd24fb0d6963f7d28e17f7g\"", "\"5f3-61a\""})
    EXPECT_EQ(md5_of_etag(other), "") << other;
}

TEST(Md5, InBase64IsThatOfGcs) {
  EXPECT_EQ(md5_of_base64("kAFQmDzST7DWlj99KOF/cg=="), md5_text("abc"));
  EXPECT_EQ(md5_of_base64("1B2M2Y8AsgTpgAmY7PhCfg=="), md5_text(""));
  for (const char* other : {"", "abc", "kAFQmDzST7DWlj99KOF/cg", "kAFQmDzST7DWlj99KOF!cg=="})
    EXPECT_EQ(md5_of_base64(other), "") << other;
}

}  // namespace
}  // namespace emblem
