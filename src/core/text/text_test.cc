#include "core/text/text.h"

#include <gmock/gmock.h>

#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<std::string> kFields = {"num_steps",      "num_epochs", "seed",
                                          "early_stopping", "lr",         "use_bn"};

TEST(NearestName, ForgivesSlipsOfTheKeyboard) {
  EXPECT_EQ(nearest_name("num_step", kFields), "num_steps");
  EXPECT_EQ(nearest_name("nmu_steps", kFields), "num_steps");
  EXPECT_EQ(nearest_name("Num_Epochs", kFields), "num_epochs");
  EXPECT_EQ(nearest_name("sed", kFields), "seed");
  EXPECT_EQ(nearest_name("earlystopping", kFields), "early_stopping");
  EXPECT_EQ(nearest_name("num_steps", kFields), "num_steps");
}

TEST(NearestName, FindsNamesThatContainTheWord) {
  EXPECT_EQ(nearest_name("steps", kFields), "num_steps");
  EXPECT_EQ(nearest_name("random_seed", kFields), "seed");
}

TEST(NearestName, StaysSilentWhenNothingIsClose) {
  EXPECT_EQ(nearest_name("optimizer", kFields), std::nullopt);
  EXPECT_EQ(nearest_name("xx", kFields), std::nullopt);
  EXPECT_EQ(nearest_name("", kFields), std::nullopt);
  EXPECT_EQ(nearest_name("seed", {}), std::nullopt);
}

TEST(ParseSize, ReadsCountsAndBytes) {
  EXPECT_EQ(parse_size("1000000", "x"), 1000000);
  EXPECT_EQ(parse_size("1.5k", "x"), 1500);
  EXPECT_EQ(parse_size(" 2M ", "x"), 2000000);
  EXPECT_EQ(parse_size("512 MB", "x"), 512000000);
  EXPECT_EQ(parse_size("4GiB", "x"), int64_t{4} << 30);
  EXPECT_EQ(parse_size("0.5 tib", "x"), int64_t{1} << 39);
  EXPECT_EQ(parse_size("64KiB", "x"), 65536);
  EXPECT_EQ(parse_size("7B", "x"), 7);
  EXPECT_EQ(parse_size("0", "x"), 0);
  EXPECT_EQ(parse_size("1e6", "x"), 1000000);
}

TEST(ParseSize, RefusesWhatIsNotASizeAndNamesTheOption) {
  const auto message = [](std::string_view text) -> std::string {
    try {
      parse_size(text, "--rows");
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message("many"),
            "--rows is \"many\", which is not a size; give a number such as 1000000, 1.5k, 512MB "
            "or 4GiB");
  for (const char* text :
       {"", "GiB", "4GiBs", "4 XB", "4ii", "4kk", "nan", "1.5", "-3", "1e30", "99999999T", "3 4"}) {
    EXPECT_THAT(message(text), HasSubstr(std::string("--rows is \"") + text + "\", ")) << text;
  }
}

TEST(Format, Bytes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(1.5 * (1 << 30)), "1.50 GiB");
}

TEST(Format, Counts) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(999.999), "1.00 k");
  EXPECT_EQ(format_count(0.5), "0.50");
  EXPECT_EQ(format_count(1234567), "1.23 M");
  EXPECT_EQ(format_count(45840617), "45.84 M");
}

TEST(Format, Durations) {
  EXPECT_EQ(format_duration(0.00035), "350 us");
  EXPECT_EQ(format_duration(0.00171), "1.71 ms");
  EXPECT_EQ(format_duration(0.0314), "31 ms");
  EXPECT_EQ(format_duration(0.9999), "1.0 s");
  EXPECT_EQ(format_duration(4.21), "4.2 s");
  EXPECT_EQ(format_duration(59.99), "1:00");
  EXPECT_EQ(format_duration(3599.7), "1:00:00");
  EXPECT_EQ(format_duration(3723), "1:02:03");
}

TEST(Split, KeepsEmptyPieces) {
  EXPECT_THAT(split("a,,b,", ','), ElementsAre("a", "", "b", ""));
  EXPECT_THAT(split("", ','), ElementsAre(""));
}

TEST(Trim, RemovesWhiteSpaceFromBothEnds) {
  EXPECT_EQ(trim(" \t a b\n"), "a b");
  EXPECT_EQ(trim("  "), "");
}

TEST(Text, PrintsUndefinedMetricsAsNotAvailable) {
  EXPECT_EQ(format_metric(0.80253449), "0.802534");
  EXPECT_EQ(format_metric(std::nan("")), "n/a");
}

TEST(Text, PrintableEscapesWhatIsNotText) {
  EXPECT_EQ(printable("plain größe 年龄 \"x\""), "plain größe 年龄 \"x\"");
  EXPECT_EQ(printable(std::string_view("a\0\x1b[2J\x7f\n", 8)), "a\\x00\\x1b[2J\\x7f\\x0a");
  EXPECT_EQ(printable("\xff\xfe"
                      "a"),
            "\\xff\\xfea");
  EXPECT_EQ(printable("\xe5\xb9"), "\\xe5\\xb9") << "a cut sequence";
  EXPECT_EQ(printable("\xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80 \xc2\x85"),
            "\\xc0\\xaf \\xed\\xa0\\x80 \\xf4\\x90\\x80\\x80 \\xc2\\x85")
      << "overlong, surrogate, too large, control";
}

}  // namespace
}  // namespace emblem
