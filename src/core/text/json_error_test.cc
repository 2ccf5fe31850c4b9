#include "core/text/json_error.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace emblem {
namespace {

TEST(JsonErrorTest, TheNameOfTheExceptionIsLeftOut) {
  try {
    const nlohmann::json parsed = nlohmann::json::parse("{");
    FAIL() << parsed;
  } catch (const nlohmann::json::exception& error) {
    EXPECT_TRUE(json_problem(error.what()).starts_with("parse error at line 1")) << error.what();
  }
  EXPECT_EQ(json_problem("other"), "other");
}

}  // namespace
}  // namespace emblem
