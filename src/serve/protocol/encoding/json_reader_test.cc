#include "serve/protocol/encoding/json_reader.h"

#include <gmock/gmock.h>

#include <limits>

#include "emblem/error.h"
#include "serve/protocol/encoding/json_writer.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(JsonReaderTest, GivesMembersAndElementsInTheirOrder) {
  JsonReader json(
      R"( {"a": [1, -2,3], "b" : {"c": "x\n\u00e9\ud83d\ude00"}, "d":true, "e":null} )");
  std::vector<std::string> keys;
  std::vector<int64_t> numbers;
  std::string text;
  json.object([&](std::string_view key) {
    keys.emplace_back(key);
    if (key == "a")
      json.array([&] { numbers.push_back(json.int64()); });
    else if (key == "b")
      json.object([&](std::string_view) { text = json.string(); });
    else
      json.skip();
  });
  json.end();
  EXPECT_THAT(keys, ElementsAre("a", "b", "d", "e"));
  EXPECT_THAT(numbers, ElementsAre(1, -2, 3));
  EXPECT_EQ(text, "x\n\xC3\xA9\xF0\x9F\x98\x80");
}

TEST(JsonReaderTest, IntegersAreExactToTheLastBit) {
  EXPECT_EQ(JsonReader("-9223372036854775808").int64(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(JsonReader("18446744073709551615").uint64(), std::numeric_limits<uint64_t>::max());
  EXPECT_THROW(JsonReader("9223372036854775808").int64(), Error);
  EXPECT_THROW(JsonReader("-1").uint64(), Error);
  EXPECT_THROW(JsonReader("1.0").int64(), Error);
}

TEST(JsonReaderTest, SaysWhatItExpectedAndWhere) {
  EXPECT_THAT([] { JsonReader("[1 2]").skip(); },
              ThrowsMessage<Error>(HasSubstr("expected ',' or ']' at byte 3, found '2'")));
  EXPECT_THAT([] { JsonReader("{\"a\"").skip(); }, ThrowsMessage<Error>(HasSubstr("the end")));
}

TEST(JsonReaderTest, RefusesWhatIsNotJson) {
  for (const char* text : {"",
                           " ",
                           "{",
                           "[",
                           "[1,]",
                           "{\"a\":1,}",
                           "{a:1}",
                           "{\"a\" 1}",
                           "01",
                           "1.",
                           ".5",
                           "+1",
                           "-",
                           "1e",
                           "1e+",
                           "0x1",
                           "nul",
                           "tru",
                           "inf",
                           "-NaN",
                           "\"",
                           "\"\\x\"",
                           "\"\\u12\"",
                           "\"\\u12g4\"",
                           "\"\\ud800\"",
                           "\"\\ud800\\u0041\"",
                           "\"\\udc00\"",
                           "\"a\nb\"",
                           "'a'",
                           "\x80"}) {
    EXPECT_THROW(
        {
          JsonReader json(text);
          json.skip();
          json.end();
        },
        Error)
        << text;
  }
  JsonReader two("1 2");
  two.skip();
  EXPECT_THROW(two.end(), Error);
}

TEST(JsonReaderTest, RefusesDeepNestingInsteadOfOverflowingTheStack) {
  EXPECT_THAT([] { JsonReader(std::string(100000, '[')).skip(); },
              ThrowsMessage<Error>(HasSubstr("at most 32 levels")));
}

TEST(JsonReaderTest, GivesTheTextOfAValueForLater) {
  JsonReader json(R"({"data": [1, [2]] , "x": 1})");
  json.object([&](std::string_view key) {
    if (key == "data")
      EXPECT_EQ(json.raw(), "[1, [2]]");
    else
      json.skip();
  });
}

TEST(JsonWriterTest, PutsCommasAndEscapes) {
  JsonWriter json;
  json.object([&] {
    json.key("a").array([&] {
      json.number(1);
      json.string("x\"\\\n\x01");
      json.array([] {});
    });
    json.key("[").boolean(true);
    json.key("b").object([] {});
    json.key("c").number(std::numeric_limits<uint64_t>::max());
  });
  EXPECT_EQ(json.text(),
            R"({"a":[1,"x\"\\\n\u0001",[]],"[":true,"b":{},"c":18446744073709551615})");
}

TEST(JsonWriterTest, NumbersAreTheShortestThatReadBackTheSame) {
  std::string out;
  append_json_number(out, 0.1f);
  out += ' ';
  append_json_number(out, 0.1);
  out += ' ';
  append_json_number(out, 1e30f);
  out += ' ';
  append_json_number(out, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(out, "0.1 0.1 1e+30 -Infinity");
}

TEST(JsonWriterTest, ReplacesWhatIsNotUtf8) {
  std::string out;
  EXPECT_TRUE(append_json_string(out, "\xC3\xA9\xF0\x9F\x98\x80"));
  EXPECT_EQ(out, "\"\xC3\xA9\xF0\x9F\x98\x80\"");
  for (const char* bad : {"\xFF", "\xC3", "\xC0\x80", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\x80"}) {
    out.clear();
    EXPECT_FALSE(append_json_string(out, bad)) << bad;
    EXPECT_THAT(out, HasSubstr("\xEF\xBF\xBD"));
  }
}

TEST(JsonReaderTest, RefusesWhatIsTooLongToKeep) {
  const std::string many(70'000, 'x');
  const auto refuses = [](const std::string& text, const auto& read, const char* why) {
    JsonReader reader(text);
    EXPECT_THAT([&] { read(reader); }, testing::ThrowsMessage<Error>(HasSubstr(why)));
  };
  const std::string quoted = "\"" + many + "\"";
  refuses(
      quoted, [](JsonReader& reader) { reader.string(); }, "a string of at most 65536 bytes");
  refuses(R"("\u0041\u0041\u0041")", [](JsonReader& reader) { reader.string(2); }, "at most 2");
  refuses(
      "{" + quoted + ":1}", [](JsonReader& reader) { reader.skip(); }, "a shorter name");
  refuses(
      std::string(2000, '1'), [](JsonReader& reader) { reader.number(); }, "1024 characters");
  JsonReader skipped(quoted);
  skipped.skip();
  skipped.end();
  EXPECT_EQ(JsonReader(quoted).string(many.size()), many);
}

}  // namespace
}  // namespace emblem
