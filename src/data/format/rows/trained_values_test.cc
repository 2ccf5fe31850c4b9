#include "data/format/rows/trained_values.h"

#include <gmock/gmock.h>

#include "data/format/text/number_text.h"
#include "data/format/text/time_text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

template <class Number>
std::string text_of(Number value) {
  std::string text;
  write_number(value, text);
  return text;
}

TEST(NumberText, OfWholeNumbersIsThatOfTheInteger) {
  EXPECT_EQ(text_of(9.0), "9");
  EXPECT_EQ(text_of(9.0f), "9");
  EXPECT_EQ(text_of(-0.0), "0");
  EXPECT_EQ(text_of(1e15), "1000000000000000");
  EXPECT_EQ(text_of(0x1p62), "4611686018427387904");
  EXPECT_EQ(text_of(1e300), "1e+300");
}

TEST(NumberText, OfOthersIsTheShortestOfTheirPrecision) {
  EXPECT_EQ(text_of(0.1), "0.1");
  EXPECT_EQ(text_of(0.1f), "0.1");
  EXPECT_EQ(text_of(static_cast<double>(0.1f)), "0.10000000149011612");
  EXPECT_EQ(text_of(-2.5), "-2.5");
}

std::string spelling_of(std::initializer_list<const char*> texts) {
  SpellingSample sample;
  for (const char* const text : texts) sample.add(text);
  return name_of(sample.spelling());
}

TEST(FloatTexts, AreNumbersAsWritersSpellThem) {
  const auto are_floats = [](std::initializer_list<const char*> texts) {
    FloatTexts found;
    for (const char* const text : texts) found.add(text);
    return found.are_floats();
  };
  EXPECT_TRUE(are_floats({"1e-07", "0.5"}));
  EXPECT_TRUE(are_floats({"1.5e+00", "0.000000e+00", "-2.25E1"}));
  EXPECT_TRUE(are_floats({"1e+05", "0e+00", "1e-04"}));
  EXPECT_FALSE(are_floats({"42E432"})) << "too large for a double";
  EXPECT_FALSE(are_floats({"1e-07", "10E0"})) << "no writer has 10 so";
  EXPECT_FALSE(are_floats({"1E1", "1E2"}));
}

TEST(Spellings, AreFoundInTheValues) {
  EXPECT_EQ(spelling_of({"9", "-12", "0", ""}), "9");
  EXPECT_EQ(spelling_of({"9", "0.5"}), "9");
  EXPECT_EQ(spelling_of({"9.0", "", "-12.0"}), "9.0");
  EXPECT_EQ(spelling_of({"9.0", "0.25"}), "9.0");
  EXPECT_EQ(spelling_of({"0.5", "0.25"}), "9.0");
  EXPECT_EQ(spelling_of({"9.50", "0.25"}), "9.00");
  EXPECT_EQ(spelling_of({"True", "False"}), "True");
  EXPECT_EQ(spelling_of({"f"}), "t");
  EXPECT_EQ(spelling_of({"2026-11-17", "1969-12-31"}), "2026-11-16");
  EXPECT_EQ(spelling_of({"1999-01-02T03:04:05.000Z"}), "2026-11-16T12:30:00.000Z");
  EXPECT_EQ(spelling_of({"1999-01-02 03:04:05", "1999-01-02 03:04:05.25"}),
            "2026-11-16 12:30:00.5");
  EXPECT_EQ(spelling_of({"01:02:03"}), "12:30:00");
  EXPECT_EQ(spelling_of({"1999-01-02 03:04:05+01:00"}), "text");
  EXPECT_EQ(spelling_of({"web", "app"}), "text");
  EXPECT_EQ(spelling_of({"42E432", "43E432"}), "text") << "codes, not numbers";
  EXPECT_EQ(spelling_of({"1E1", "10E0", "100E0"}), "text");
  EXPECT_EQ(spelling_of({"x7", "12"}), "9");
  EXPECT_EQ(spelling_of({""}), "");
}

TEST(Spellings, AreMixedWhereANumberDoesNotTellItsText) {
  EXPECT_EQ(spelling_of({"9", "9.0"}), "mixed");
  EXPECT_EQ(spelling_of({"00501", "10001"}), "mixed");
  EXPECT_EQ(spelling_of({"+7"}), "mixed");
  EXPECT_EQ(spelling_of({"True", "1"}), "mixed");
}

TEST(Spellings, HaveNames) {
  for (const char* const name :
       {"", "9", "9.0", "9.00", "9.000", "True", "yes", "2026-11-16", "2026-11-16 12:30:00",
        "2026-11-16T12:30:00.000000Z", "2026-11-16 12:30:00.5+00:00", "12:30:00", "12:30:00.000",
        "text", "mixed"})
    EXPECT_EQ(name_of(spelling_named(name)), name);
  EXPECT_THAT([] { spelling_named("8"); },
              ThrowsMessage<Error>(HasSubstr("spelling \"8\" is not known")));
}

TEST(ValueTypes, HaveNames) {
  for (const char* const name : {"bool", "integer", "float", "double", "text", "date[day]",
                                 "timestamp[us]", "time[ns]", "duration[ms]"})
    EXPECT_EQ(name_of(value_type_named(name)), name);
  EXPECT_THAT([] { value_type_named("timestamp"); },
              ThrowsMessage<Error>(HasSubstr("kind \"timestamp\" is not known")));
  EXPECT_EQ(name_of(value_type_stored_as("timestamp[us, tz=UTC]")), "timestamp[us]");
  EXPECT_EQ(name_of(value_type_stored_as("date32[day]")), "date[day]");
  EXPECT_EQ(name_of(value_type_stored_as("time64[us]")), "time[us]");
  EXPECT_EQ(name_of(value_type_stored_as("bool")), "bool");
  EXPECT_EQ(name_of(value_type_stored_as("uint64")), "");
}

TrainedValues trained(const std::string& kind, const std::string& spelling = "") {
  return {value_type_named(kind), spelling_named(spelling)};
}

// The text; "-" where it is missing, "!" with the reason where it is refused.
std::string respelled(const TrainedValues& values, const std::string& text) {
  std::string out;
  switch (respell(values, text, out)) {
    case Respelled::kSame:
      return text;
    case Respelled::kChanged:
      return out;
    case Respelled::kMissing:
      return "-";
    case Respelled::kRefused:
      break;
  }
  return "!" + out;
}

TEST(Respell, LeavesTextThatIsNotRecorded) {
  EXPECT_EQ(respelled({}, "9.0"), "9.0");
  EXPECT_EQ(respelled(trained("text"), "9.0"), "9.0");
  EXPECT_EQ(respelled(trained("text", "text"), "9.0"), "9.0");
  EXPECT_EQ(respelled(trained("text", "mixed"), "9.0"), "9.0");
}

TEST(Respell, WritesWholeNumbersAsTheTextOfTraining) {
  const TrainedValues plain = trained("text", "9"), point = trained("text", "9.0");
  EXPECT_EQ(respelled(plain, "9"), "9");
  EXPECT_EQ(respelled(plain, "9.0"), "9");
  EXPECT_EQ(respelled(plain, "-12.00"), "-12");
  EXPECT_EQ(respelled(plain, "1.10"), "1.10") << "a version, say";
  EXPECT_EQ(respelled(plain, "007"), "007");
  EXPECT_EQ(respelled(plain, "007.0"), "007.0");
  EXPECT_EQ(respelled(plain, "web"), "web");
  EXPECT_EQ(respelled(point, "9"), "9.0");
  EXPECT_EQ(respelled(point, "9.0"), "9.0");
  EXPECT_EQ(respelled(point, "0.5"), "0.5");
  EXPECT_EQ(respelled(point, "web"), "web");
  EXPECT_EQ(respelled(point, "nan"), "-");
  EXPECT_EQ(respelled(trained("text", "9.00"), "9.5"), "9.50");
  EXPECT_EQ(respelled(trained("text", "9.00"), "-9"), "-9.00");
  EXPECT_EQ(respelled(trained("text", "9.00"), "9.123"), "9.123");
}

TEST(Respell, WritesBoolsAsTheWordsOfTraining) {
  const TrainedValues words = trained("text", "True");
  EXPECT_EQ(respelled(words, "True"), "True");
  EXPECT_EQ(respelled(words, "true"), "True");
  EXPECT_EQ(respelled(words, "0"), "False");
  EXPECT_EQ(respelled(words, "1.0"), "True");
  EXPECT_EQ(respelled(words, "maybe"), "maybe");
  const TrainedValues bools = trained("bool");
  EXPECT_EQ(respelled(bools, "True"), "1");
  EXPECT_EQ(respelled(bools, "false"), "0");
  EXPECT_EQ(respelled(bools, "1"), "1");
  EXPECT_EQ(respelled(bools, "0.0"), "0");
  EXPECT_EQ(respelled(bools, "2"),
            "!\"2\" is not true or false, as the column's values were in training");
}

TEST(Respell, ReadsNumbersOfTrainingFromText) {
  const TrainedValues integers = trained("integer");
  EXPECT_EQ(respelled(integers, "9"), "9");
  EXPECT_EQ(respelled(integers, "9.0"), "9");
  EXPECT_EQ(respelled(integers, "007"), "7");
  EXPECT_EQ(respelled(integers, "1e+16"), "10000000000000000");
  EXPECT_EQ(respelled(integers, "18446744073709551615"), "18446744073709551615");
  EXPECT_EQ(respelled(integers, "9.5"),
            "!\"9.5\" is not an integer, as the column's values were in training");
  EXPECT_EQ(respelled(trained("double"), "9.50"), "9.5");
  EXPECT_EQ(respelled(trained("double"), "9"), "9");
  EXPECT_EQ(respelled(trained("double"), "9007199254740993"), "9007199254740992")
      << "the double of training";
  EXPECT_EQ(respelled(trained("double"), "nan"), "-");
  EXPECT_EQ(respelled(trained("float"), "0.10000000149011612"), "0.1");
  EXPECT_EQ(respelled(trained("double", "text"), "web"), "web") << "it was text";
  EXPECT_EQ(respelled(trained("double", "text"), "1e-07"), respelled(trained("double"), "1e-7"));
  EXPECT_EQ(respelled(trained("double"), "web"),
            "!\"web\" is not a number, as the column's values were in training");
}

TEST(Respell, TakesTheSmallestInt64ForMissing) {
  const std::string smallest = "-9223372036854775808";
  for (const TrainedValues& values :
       {trained("integer"), trained("double"), trained("text", "9"), trained("text", "9.0")})
    EXPECT_EQ(respelled(values, smallest), "-");
  EXPECT_EQ(respelled(trained("text", "text"), smallest), smallest);
}

TEST(Respell, ReadsDatesAndTimes) {
  EXPECT_EQ(respelled(trained("date[day]"), "1970-01-02"), "1");
  EXPECT_EQ(respelled(trained("date[day]"), "1969-12-31"), "-1");
  EXPECT_EQ(respelled(trained("date[day]"), "20773"), "20773");
  EXPECT_EQ(respelled(trained("date[day]"), "1970-01-02 00:00:00"), "1");
  EXPECT_EQ(respelled(trained("timestamp[ms]"), "1970-01-01 00:00:01.25"), "1250");
  EXPECT_EQ(respelled(trained("timestamp[us]"), "1970-01-01T01:00:00.000001+01:00"), "1");
  EXPECT_EQ(respelled(trained("timestamp[s]"), "1969-12-31 23:59:59Z"), "-1");
  EXPECT_EQ(respelled(trained("time[us]"), "00:00:01"), "1000000");
  EXPECT_THAT(respelled(trained("date[day]"), "1970-02-30"), HasSubstr("is not a date[day]"));
  EXPECT_THAT(respelled(trained("timestamp[s]"), "1970-01-01 00:00:01.5"),
              HasSubstr("is not a timestamp[s]"));
  EXPECT_EQ(respelled(trained("text", "2026-11-16"), "2026-11-16 00:00:00"), "2026-11-16");
}

TEST(Respell, WritesTimesInTheFormatOfTraining) {
  const TrainedValues polars = trained("text", "2026-11-16T12:30:00.000000");
  EXPECT_EQ(respelled(polars, "1999-01-02 03:04:05"), "1999-01-02T03:04:05.000000");
  EXPECT_EQ(respelled(polars, "1999-01-02T03:04:05.000000"), "1999-01-02T03:04:05.000000");
  EXPECT_EQ(respelled(polars, "1999-01-02"), "1999-01-02T00:00:00.000000");
  EXPECT_EQ(respelled(polars, "soon"), "soon");
  EXPECT_EQ(respelled(trained("text", "2026-11-16 12:30:00.5"), "1999-01-02T03:04:05.250Z"),
            "1999-01-02 03:04:05.25");
  EXPECT_EQ(respelled(trained("text", "12:30:00"), "01:02:03.000"), "01:02:03");
}

TEST(TimeText, ReadsWhatItWrites) {
  for (const char* const name :
       {"date[day]", "date[ms]", "timestamp[s]", "timestamp[us]", "timestamp[ns]"}) {
    const ValueType type = value_type_named(name);
    for (const int64_t ticks : {int64_t{0}, int64_t{-1}, int64_t{12345}, int64_t{1794832200}}) {
      std::string text;
      write_time(ticks, type, text);
      int64_t found = 0;
      if (text.find('-', 1) == text.npos) continue;  // a year of more digits
      EXPECT_TRUE(parse_time(text, type, found)) << text;
      EXPECT_EQ(found, ticks) << text;
    }
  }
  std::string text;
  write_time(1794832200, value_type_named("timestamp[s]"), text);
  EXPECT_EQ(text, "2026-11-16 12:30:00");
}

TEST(KindProblem, IsThatAColumnOfAnotherKindIsNotCertain) {
  const auto problem = [](const TrainedValues& values, const std::string& found) {
    return kind_problem(values, value_type_named(found), found);
  };
  for (const char* const number : {"bool", "integer", "float", "double"}) {
    EXPECT_EQ(problem({}, number), "");
    for (const char* const kind : {"bool", "integer", "float", "double"})
      EXPECT_EQ(problem(trained(kind), number), "");
    for (const char* const spelling : {"", "9", "9.0", "9.00", "True"})
      EXPECT_EQ(problem(trained("text", spelling), number), "");
    for (const char* const spelling : {"text", "mixed", "2026-11-16"})
      EXPECT_THAT(problem(trained("text", spelling), number),
                  HasSubstr("give it as text, spelled as in training"));
    EXPECT_THAT(problem(trained(number), "timestamp[us]"), HasSubstr("is timestamp[us], but was"));
  }
  EXPECT_EQ(problem(trained("timestamp[us]"), "timestamp[ns]"), "");
  EXPECT_EQ(problem(trained("date[day]"), "timestamp[us]"), "");
  EXPECT_EQ(problem(trained("timestamp[us]"), "integer"), "");
  EXPECT_EQ(problem(trained("text", "2026-11-16"), "date[day]"), "");
  EXPECT_NE(problem(trained("text", "text"), "date[day]"), "");
  EXPECT_NE(problem(trained("timestamp[us]"), "double"), "");
  EXPECT_NE(problem(trained("time[us]"), "timestamp[us]"), "");
  EXPECT_EQ(problem(trained("timestamp[us]"), "text"), "") << "each value is read";
}

}  // namespace
}  // namespace emblem
