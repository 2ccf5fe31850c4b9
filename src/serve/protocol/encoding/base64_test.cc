#include "serve/protocol/encoding/base64.h"

#include <gtest/gtest.h>

#include "emblem/error.h"

namespace emblem {
namespace {

TEST(Base64, DecodesWithAndWithoutPadding) {
  EXPECT_EQ(decode_base64(""), "");
  EXPECT_EQ(decode_base64("TQ=="), "M");
  EXPECT_EQ(decode_base64("TWE="), "Ma");
  EXPECT_EQ(decode_base64("TWFu"), "Man");
  EXPECT_EQ(decode_base64("TWE"), "Ma");
  EXPECT_EQ(decode_base64("/+8A"), std::string("\xff\xef\0", 3));
}

TEST(Base64, RefusesOtherText) {
  EXPECT_THROW(decode_base64("TW!u"), Error);
  EXPECT_THROW(decode_base64("TWFuT"), Error);
  EXPECT_THROW(decode_base64("TQ==TQ=="), Error);
}

}  // namespace
}  // namespace emblem
