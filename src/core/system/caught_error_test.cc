#include "core/system/caught_error.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <new>

namespace emblem {
namespace {

template <class Thrown>
Error caught(const Thrown& thrown) {
  try {
    throw thrown;
  } catch (...) {
    return caught_error();
  }
}

TEST(CaughtErrorTest, WhateverWasThrownBecomesAnError) {
  EXPECT_EQ(caught(Error(ErrorCode::kNotFound, "no model")).code(), ErrorCode::kNotFound);
  EXPECT_STREQ(caught(Error(ErrorCode::kNotFound, "no model")).what(), "no model");
  EXPECT_EQ(caught(std::bad_alloc()).code(), ErrorCode::kOutOfMemory);
  EXPECT_STREQ(caught(std::bad_alloc()).what(), "out of memory");
  EXPECT_EQ(caught(std::runtime_error("broken")).code(), ErrorCode::kInternal);
  EXPECT_STREQ(caught(std::runtime_error("broken")).what(), "broken");
  EXPECT_STREQ(
      caught(std::runtime_error("[json.exception.out_of_range.403] key 'rows' not found")).what(),
      "\"rows\" is missing");
  const std::filesystem::filesystem_error denied(
      "cannot remove all", "a/b", std::make_error_code(std::errc::permission_denied));
  EXPECT_EQ(caught(denied).code(), ErrorCode::kUnavailable);
  EXPECT_STREQ(caught(denied).what(), "cannot access a/b: Permission denied");
  EXPECT_EQ(caught(7).code(), ErrorCode::kInternal);
}

}  // namespace
}  // namespace emblem
