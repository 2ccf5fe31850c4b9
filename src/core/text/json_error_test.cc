#include "core/text/json_error.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace emblem {
namespace {

template <class Read>
std::string problem_of(Read&& read) {
  try {
    read();
  } catch (const nlohmann::json::exception& error) {
    return json_problem(error.what());
  }
  return "none";
}

std::string parse_problem(const std::string& text) {
  return problem_of([&] { const auto parsed = nlohmann::json::parse(text); });
}

TEST(JsonErrorTest, APlaceIsNamedAndTheTextIsNotQuoted) {
  EXPECT_EQ(parse_problem("{"), "line 1, column 2: unexpected end of input");
  EXPECT_EQ(parse_problem("{\n  secret"), "line 2, column 3: unexpected text");
  EXPECT_EQ(parse_problem("[\"secret\" \"other\"]"), "line 1, column 17: unexpected text");
  EXPECT_EQ(parse_problem("[\"secret\n\"]"), "line 2, column 0: unexpected text");
  EXPECT_EQ(parse_problem("root:x:0:0"), "line 1, column 1: unexpected text");
  EXPECT_EQ(parse_problem("[1e1234567]"), "a number is too large");
}

TEST(JsonErrorTest, AValueThatIsMissingOrOfAnotherTypeIsNamed) {
  const auto json = nlohmann::json::parse(R"({"rows": "many"})");
  EXPECT_EQ(problem_of([&] { json.at("dim"); }), "\"dim\" is missing");
  EXPECT_EQ(problem_of([&] { json.at("rows").get<int>(); }), "expected number, found string");
  EXPECT_EQ(problem_of([&] { json.at("rows").at("dim"); }), "a value has the wrong type");
  EXPECT_EQ(json_problem("other"), "other");
}

}  // namespace
}  // namespace emblem
