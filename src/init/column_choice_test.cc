#include "init/column_choice.h"

#include <gmock/gmock.h>

#include <functional>

#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using testing::ThrowsMessage;
using testing::UnorderedElementsAre;

// A profile of one column with `rows` values.
DataProfile data_of(const std::string& name, int rows,
                    const std::function<std::string(int)>& value) {
  DataProfile data;
  data.source.input = "a.csv";
  data.rows_read = rows;
  data.total_rows = rows;
  data.all_read = true;
  ColumnProfile& column = data.columns.emplace_back();
  column.name = name;
  for (int i = 0; i < rows; ++i) column.add_text(value(i));
  return data;
}

ColumnChoice choice_of(const std::string& name, int rows,
                       const std::function<std::string(int)>& value) {
  return choose_columns(data_of(name, rows, value), {})[0];
}

std::string one_of(int i, int count) { return std::to_string(i * 7919 % count); }

TEST(ColumnChoice, NumbersAreNormalized) {
  const ColumnChoice height =
      choice_of("height", 1000, [](int i) { return one_of(i, 100) + ".5"; });
  EXPECT_EQ(height.use, ColumnUse::kNumber);
  EXPECT_EQ(height.found, "number");
  EXPECT_EQ(height.normalizer, "method=zscore,mean=50,standard_deviation=28.8661");
  const ColumnChoice age = choice_of("age", 1000, [](int i) { return one_of(i, 80); });
  EXPECT_EQ(age.use, ColumnUse::kNumber);
  EXPECT_EQ(age.found, "integer");
}

TEST(ColumnChoice, SkewedAmountsAreTakenAsLogarithms) {
  const auto amount = [](int i) {
    return i % 10 == 0 ? std::to_string(i * i) : i % 10 == 1 ? "" : "0";
  };
  const ColumnChoice choice = choice_of("gain", 1000, amount);
  EXPECT_EQ(choice.use, ColumnUse::kNumber);
  EXPECT_THAT(choice.normalizer, HasSubstr("method=log1p,mean="));
}

TEST(ColumnChoice, FewWholeNumbersAndTextAreCategories) {
  EXPECT_EQ(choice_of("rooms", 1000, [](int i) { return one_of(i, 8); }).use, ColumnUse::kCategory);
  EXPECT_EQ(choice_of("rooms", 1000, [](int i) { return one_of(i, 8) + ".0"; }).use,
            ColumnUse::kCategory);
  EXPECT_EQ(choice_of("rooms", 30, [](int i) { return one_of(i, 8); }).use, ColumnUse::kNumber)
      << "too few rows to tell";
  const ColumnChoice city = choice_of("city", 1000, [](int i) { return "c" + one_of(i, 90); });
  EXPECT_EQ(city.use, ColumnUse::kCategory);
  EXPECT_EQ(city.distinct, 90);
}

TEST(ColumnChoice, WordsThatAreSeenWholeHaveARowEach) {
  const ColumnChoice device =
      choice_of("device", 1000, [](int i) { return i % 3 == 0 ? "web" : "desktop"; });
  EXPECT_THAT(device.vocabulary, ElementsAre("desktop", "web"));
  const ColumnChoice padded = choice_of("p", 1000, [](int i) { return i % 3 == 0 ? " a" : "b"; });
  EXPECT_THAT(padded.vocabulary, ElementsAre("b", " a")) << "as they are in the file";
  EXPECT_THAT(choice_of("n", 1000, [](int i) { return i % 4 ? "c" : "NA"; }).vocabulary,
              ElementsAre("c", "NA"));
  const ColumnChoice many = choice_of("item", 3000, [](int i) { return "i" + one_of(i, 900); });
  EXPECT_THAT(many.vocabulary, IsEmpty()) << "a dynamic table";
}

TEST(ColumnChoice, IdsAreCategoriesByNameOrSize) {
  const auto ids = [](int i) { return one_of(i, 300); };
  for (const char* name : {"user_id", "userId", "UserID", "ID", "zip", "zip code", "item-id"})
    EXPECT_EQ(choice_of(name, 1000, ids).use, ColumnUse::kCategory) << name;
  for (const char* name : {"paid", "humid", "price", "idle"})
    EXPECT_EQ(choice_of(name, 1000, ids).use, ColumnUse::kNumber) << name;
  const auto hashes = [](int i) { return std::to_string(900000000000000000 + i * 7919 % 300); };
  EXPECT_EQ(choice_of("x", 1000, [&](int i) { return "9" + hashes(i); }).use, ColumnUse::kCategory);
}

TEST(ColumnChoice, RowNumbersAndConstantsAreSkipped) {
  const auto why = [](const char* name, const std::function<std::string(int)>& value) {
    const ColumnChoice choice = choice_of(name, 500, value);
    EXPECT_EQ(choice.use, ColumnUse::kSkipped) << name;
    return choice.why;
  };
  EXPECT_EQ(why("n", [](int i) { return std::to_string(i); }), "row number");
  EXPECT_EQ(why("order_id", [](int i) { return std::to_string(i * 7919 % 1000003); }),
            "one value per row");
  EXPECT_EQ(why("name", [](int i) { return "person" + std::to_string(i); }), "one value per row");
  EXPECT_EQ(why("year", [](int) { return "2024"; }), "constant");
  EXPECT_EQ(why("note", [](int) { return ""; }), "no values");
  EXPECT_EQ(choice_of("flag", 500, [](int i) { return i % 2 ? "" : "x"; }).use,
            ColumnUse::kCategory)
      << "a value or none is not constant";
}

TEST(ColumnChoice, ListsHaveASeparator) {
  const auto genres = [](const char* separator) {
    return [=](int i) { return "g" + one_of(i, 9) + separator + "g" + one_of(i + 3, 7); };
  };
  for (const char* separator : {"|", ";", ",", " "}) {
    const ColumnChoice choice = choice_of("genres", 1000, genres(separator));
    EXPECT_EQ(choice.found, "list") << separator;
    EXPECT_EQ(choice.separator, separator);
    EXPECT_EQ(choice.distinct, 9) << separator;
  }
  const auto names = [](int i) { return "New York " + one_of(i, 8); };
  EXPECT_EQ(choice_of("city", 1000, names).separator, "") << "few different texts are categories";
}

TEST(ColumnChoice, DatesBecomeParts) {
  const ColumnChoice day = choice_of("day", 500, [](int i) {
    return "2024-" + std::to_string(i % 12 + 1) + "-" + std::to_string(i % 28 + 1);
  });
  EXPECT_EQ(day.use, ColumnUse::kDate);
  EXPECT_EQ(day.found, "date");
  EXPECT_THAT(day.parts, ElementsAre(config::DAYS, config::WEEKDAY, config::MONTH));
  const ColumnChoice time = choice_of("at", 500, [](int i) {
    return std::to_string(i % 28 + 1) + "/5/2024 " + std::to_string(i % 24) + ":00";
  });
  EXPECT_THAT(time.parts, ElementsAre(config::DAYS, config::HOUR, config::WEEKDAY));
  EXPECT_TRUE(time.day_first);
  const auto seconds = [](int i) { return std::to_string(1714557600 + i * 7919 % 500 * 5000); };
  EXPECT_EQ(choice_of("timestamp", 500, seconds).use, ColumnUse::kDate);
  EXPECT_EQ(choice_of("amount", 500, seconds).use, ColumnUse::kNumber);
  EXPECT_EQ(choice_of("when", 500, [](int) { return "2024-05-01"; }).why, "constant");
  for (const char* missing : {"NaT", "0000-00-00", "0000-00-00 00:00:00"}) {
    const auto gaps = [=](int i) {
      return i % 10 == 0 ? missing : "2024-05-" + std::to_string(i % 28 + 1);
    };
    EXPECT_EQ(choice_of("when", 500, gaps).use, ColumnUse::kDate) << missing;
  }
  const auto named = [](int i) { return std::to_string(i % 28 + 1) + "-Oct-22"; };
  EXPECT_EQ(choice_of("when", 500, named).use, ColumnUse::kDate);
}

TEST(ColumnChoice, TimesMayNameTheirUnit) {
  const auto time = [](int i) { return std::to_string(1'700'000'000'000 + i * 86'400'137LL); };
  for (const char* name : {"ts_ms", "created_at_ms", "timestampMs", "event time ms"})
    EXPECT_EQ(choice_of(name, 500, time).use, ColumnUse::kDate) << name;
  EXPECT_EQ(choice_of("items", 500, time).use, ColumnUse::kNumber);
  EXPECT_EQ(choice_of("elapsed_time_ms", 500, [](int i) { return one_of(i, 400); }).use,
            ColumnUse::kNumber);
}

TEST(ColumnChoice, AmountsAreNumbersAndNotLists) {
  const ColumnChoice price = choice_of("price", 1000, [](int i) {
    return "$" + std::to_string(1 + i % 9) + "," + std::to_string(100 + i % 77);
  });
  EXPECT_EQ(price.use, ColumnUse::kNumber);
  EXPECT_EQ(price.found, "amount");
  EXPECT_EQ(price.number_format, config::COMMA_GROUPS);
  EXPECT_EQ(price.separator, "");
  const ColumnChoice sum =
      choice_of("sum", 500, [](int i) { return std::to_string(i * 7919 % 500) + ",5"; });
  EXPECT_EQ(sum.use, ColumnUse::kNumber);
  EXPECT_EQ(sum.number_format, config::POINT_GROUPS);
}

TEST(ColumnChoice, SentinelsAreMissingValues) {
  const ColumnChoice income = choice_of("income", 5000, [](int i) {
    return i % 50 == 0 ? "-999999999" : std::to_string(20000 + i * 7919 % 3001);
  });
  EXPECT_EQ(income.use, ColumnUse::kNumber);
  EXPECT_THAT(income.na_strings, ElementsAre("-999999999"));
  EXPECT_THAT(income.warning, HasSubstr("-999999999, far from all other values, in 2 % of the"));
  EXPECT_NEAR(income.missing_share, 0.02, 1e-9);
  EXPECT_THAT(income.normalizer, StartsWith("method=zscore,mean=21"));
  const ColumnChoice age = choice_of("age", 5000, [](int i) {
    return i % 100 == 0 ? "999" : i % 100 == 1 ? "-999" : std::to_string(18 + i * 7919 % 70);
  });
  EXPECT_THAT(age.na_strings, UnorderedElementsAre("999", "-999"));
  const auto plain = [](int i) { return std::to_string(i * 7919 % 1000); };
  EXPECT_THAT(choice_of("n", 5000, plain).na_strings, IsEmpty());
  const auto tail = [](int i) { return i % 500 == 0 ? std::to_string(1000 * i) : one_of(i, 97); };
  EXPECT_THAT(choice_of("n", 5000, tail).na_strings, IsEmpty()) << "outliers are not repeated";
  EXPECT_THAT(choice_of("n", 5000, tail).normalizer, HasSubstr("limit=8"));
}

TEST(ColumnChoice, AdjacentSentinelsAreMissingValues) {
  const ColumnChoice age = choice_of("age", 5000, [](int i) {
    return i % 25 == 0 ? std::to_string(997 + i / 25 % 3) : std::to_string(18 + i * 7919 % 70);
  });
  EXPECT_THAT(age.na_strings, UnorderedElementsAre("997", "998", "999"));
  EXPECT_THAT(age.warning, HasSubstr("999, 998, 997, far from all other values, in 4 % of the"));
  const auto codes = [](int i) {
    return std::to_string(i % 25 == 0 ? -(8 + i % 2) : i * 7919 % 70);
  };
  EXPECT_THAT(choice_of("n", 5000, codes).na_strings, IsEmpty()) << "near other values";
}

TEST(ColumnChoice, SentinelsAmongMostlyZerosAreMissingValues) {
  const auto gains = [](int i) {
    return std::to_string(i % 50 == 0 ? 999999 : i % 40 == 1 ? 100 + i * 7919 % 900 : 0);
  };
  EXPECT_THAT(choice_of("gain", 5000, gains).na_strings, ElementsAre("999999"));
  const auto flag = [](int i) { return std::to_string(i % 50 == 0 ? 99 : 0); };
  EXPECT_THAT(choice_of("flag", 5000, flag).na_strings, IsEmpty()) << "two values";
  const auto few = [](int i) { return i % 50 == 0 ? "1.5" : i % 50 == 1 ? "40" : "0"; };
  EXPECT_THAT(choice_of("few", 5000, few).na_strings, IsEmpty());
}

TEST(ColumnChoice, PlaceholdersOfDatesAreMissingValues) {
  const auto dates = [](const std::string& placeholder, const std::string& end) {
    return choice_of("at", 5000, [=](int i) {
      if (i % 20 == 0) return placeholder + end;
      return cat("20", 20 + i % 5, "-0", 1 + i % 9, "-1", i % 10, end);
    });
  };
  for (const std::string placeholder : {"9999-12-31", "1900-01-01"}) {
    for (const std::string end : {"", " 00:00:00"}) {
      const ColumnChoice choice = dates(placeholder, end);
      EXPECT_EQ(choice.use, ColumnUse::kDate);
      EXPECT_THAT(choice.na_strings, ElementsAre(placeholder + end));
      EXPECT_THAT(choice.warning,
                  HasSubstr(placeholder + end + ", far from all other values, in 5"));
      EXPECT_THAT(choice.normalizer, HasSubstr("limit=8"));
      EXPECT_NEAR(choice.missing_share, 0.05, 1e-3);
    }
  }
  EXPECT_THAT(dates("2022-02-02", "").na_strings, IsEmpty());
}

TEST(ColumnChoice, TextsForMissingNumbersAreThoseOfTheirColumn) {
  const auto texts = [](const char* text) {
    return choice_of("a", 100, [=](int i) { return i % 9 ? one_of(i, 97) : text; });
  };
  EXPECT_THAT(texts("NA").na_strings, IsEmpty()) << "the loader knows it";
  EXPECT_EQ(texts(" ?").use, ColumnUse::kNumber);
  EXPECT_THAT(texts(" ?").na_strings, ElementsAre("?"));
  EXPECT_THAT(choice_of("a", 100, [](int i) { return i % 9 ? "x" : "?"; }).na_strings, IsEmpty());
}

TEST(ColumnChoice, ListsOfWhatAnotherColumnHasAreItsHistory) {
  DataProfile data = data_of("clicked", 1000,
                             [](int i) { return "i" + one_of(i, 40) + "|i" + one_of(i + 1, 50); });
  data.columns.push_back(
      data_of("item", 1000, [](int i) { return "i" + one_of(i, 50); }).columns[0]);
  data.columns.push_back(
      data_of("city", 1000, [](int i) { return "c" + one_of(i, 9); }).columns[0]);
  const std::vector<ColumnChoice> choices = choose_columns(data, {});
  EXPECT_EQ(choices[0].use, ColumnUse::kSequence);
  EXPECT_EQ(choices[0].target, "item");
  EXPECT_EQ(choices[0].longest, 2);
  EXPECT_EQ(choices[0].vocabulary, choices[1].vocabulary) << "one table";
  EXPECT_EQ(choices[2].use, ColumnUse::kCategory);
  data.columns.erase(data.columns.begin() + 1);
  EXPECT_EQ(choose_columns(data, {})[0].use, ColumnUse::kCategory) << "nothing to compare with";
}

TEST(ColumnChoice, AFewMistakesAmongNumbersAreMissingValues) {
  const ColumnChoice age =
      choice_of("age", 1000, [](int i) { return i == 500 ? "oops" : one_of(i, 80); });
  EXPECT_EQ(age.use, ColumnUse::kNumber);
  EXPECT_EQ(age.found, "integer");
  EXPECT_EQ(age.warning, "1 of 1000 values is not a number (\"oops\"); treated as missing");
  EXPECT_DOUBLE_EQ(age.missing_share, 0.001);
  EXPECT_THAT(age.na_strings, ElementsAre("oops"));
  const auto with_texts = [](int every, int texts) {
    return choice_of("age", 1000, [=](int i) {
      return i % every == 0 ? "t" + std::to_string(i / every % texts) : one_of(i, 80) + ".5";
    });
  };
  EXPECT_EQ(with_texts(100, 5).use, ColumnUse::kNumber) << "1 %, five texts";
  EXPECT_EQ(with_texts(100, 6).use, ColumnUse::kCategory) << "1 %, six texts";
  EXPECT_EQ(with_texts(50, 1).use, ColumnUse::kCategory) << "2 %";
  const ColumnChoice id =
      choice_of("user_id", 1000, [](int i) { return i == 500 ? "guest" : one_of(i, 80); });
  EXPECT_EQ(id.use, ColumnUse::kCategory) << "the text is a value";
  EXPECT_EQ(id.found, "text");
}

TEST(ColumnChoice, AWordAmongNumbersIsAMissingValue) {
  const auto column = [](const std::string& word, int numbers) {
    return choice_of("age", 1000, [=](int i) { return i % 20 ? one_of(i, numbers) : word; });
  };
  const ColumnChoice age = column("#NV", 80);
  EXPECT_EQ(age.use, ColumnUse::kNumber);
  EXPECT_EQ(age.warning, "50 of 1000 values are not numbers (\"#NV\"); treated as missing");
  EXPECT_NEAR(age.missing_share, 0.05, 1e-9);
  EXPECT_THAT(age.na_strings, ElementsAre("#NV"));
  EXPECT_EQ(column("over 80", 80).use, ColumnUse::kCategory) << "it says more than nothing";
  EXPECT_EQ(column("XL", 9).use, ColumnUse::kCategory) << "sizes";
}

TEST(ColumnChoice, WholeNumbersBeyond64BitsAreCategories) {
  const ColumnChoice account = choice_of("account", 2000, [](int i) {
    return "10000000000000000000" + std::to_string(10000 + i % 900);
  });
  EXPECT_EQ(account.use, ColumnUse::kCategory);
  EXPECT_EQ(account.found, "integer");
  const auto area = [](int i) { return i % 9 ? one_of(i, 97) + ".5" : "30000000000000000000"; };
  EXPECT_EQ(choice_of("area", 2000, area).use, ColumnUse::kNumber);
}

TEST(ColumnChoice, NumbersThatAFloatCannotHoldAreNamed) {
  const auto sum = [](int every, int count) {
    return choice_of("sum", 1000, [=](int i) {
      return i % every == 0 ? std::to_string(i % count + 1) + "e300" : one_of(i, 80) + ".5";
    });
  };
  EXPECT_EQ(sum(500, 1).warning,
            "2 of 1000 values are too large for a 32-bit float (\"1e300\"); treated as missing");
  EXPECT_THAT(sum(5, 7).warning, HasSubstr("200 of 1000 values are too large for a 32-bit float"));
  EXPECT_EQ(sum(1, 1000).why, "too large for a 32-bit float");
}

TEST(ColumnChoice, WholeNumbersWithLeadingZerosAreCategories) {
  const auto postcode = [](int i) { return (i % 10 ? "1" : "0") + std::to_string(5064 + i % 90); };
  EXPECT_EQ(choice_of("plz", 2000, postcode).use, ColumnUse::kCategory);
  EXPECT_EQ(choice_of("n", 2000, [](int i) { return one_of(i, 900); }).use, ColumnUse::kNumber);
}

TEST(ColumnChoice, TextsForMissingValuesAreValuesOfCategories) {
  const auto text = [](int i) { return i % 4 == 0 ? "NA" : i % 4 == 1 ? "" : "c" + one_of(i, 9); };
  const DataProfile alone = data_of("city", 1000, text);
  const ColumnChoice city = choose_columns(alone, {})[0];
  EXPECT_DOUBLE_EQ(city.missing_share, 0.25);
  EXPECT_EQ(city.distinct, 10) << "with NA";
  DataProfile both = alone;
  both.columns.push_back(
      data_of("age", 1000, [](int i) { return i % 9 ? one_of(i, 97) : "?"; }).columns[0]);
  EXPECT_DOUBLE_EQ(choose_columns(both, {})[0].missing_share, 0.25)
      << "missing texts of a number are values of others";
}

TEST(ColumnChoice, WishesDecideAndAreChecked) {
  const DataProfile data = data_of("age", 1000, [](int i) { return one_of(i, 80); });
  EXPECT_EQ(choose_columns(data, {.categories = {"age"}})[0].use, ColumnUse::kCategory);
  EXPECT_EQ(choose_columns(data, {.skipped = {"age"}})[0].use, ColumnUse::kSkipped);
  const auto problem = [&](const ColumnWishes& wishes) -> std::string {
    try {
      choose_columns(data, wishes);
    } catch (const Error& error) {
      return error.what();
    }
    return "fine";
  };
  EXPECT_EQ(problem({.skipped = {"agee"}}),
            "--skip: a.csv has no column \"agee\"; did you mean \"age\"?");
  DataProfile named = data;
  named.source.with_header = true;
  EXPECT_THAT([&] { choose_columns(named, {.label = "1"}); },
              ThrowsMessage<Error>(HasSubstr(
                  "--label: a.csv has no column \"1\"; numbers are for files without a header")));
  EXPECT_EQ(problem({.label = "nosuch"}),
            "--label: a.csv has no column \"nosuch\"; its columns are \"age\"");
  EXPECT_THAT(problem({.label = "age", .skipped = {"age"}}), HasSubstr("name it once"));
}

}  // namespace
}  // namespace emblem
