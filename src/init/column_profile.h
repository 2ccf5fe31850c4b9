// init/column_profile.h - what the sampled values of one column are: numbers, dates, lists, ids.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "data/distinct_count.h"
#include "data/format/text/date_text.h"

namespace emblem {

// Numbers at equal distances, up to 20,000 of them.
class NumberSample {
 public:
  void add(double value);
  // Becomes the sample of both, as if they were of one column.
  void add(const NumberSample& other);
  const std::vector<double>& values() const { return values_; }

 private:
  std::vector<double> values_;
  int64_t stride_ = 1, seen_ = 0;
};

// Distinct texts with their counts, as long as they are few.
class WordCounts {
 public:
  static constexpr size_t kMost = 1000;

  void add(std::string_view text);
  bool is_complete() const { return is_complete_; }  // no text was too many
  const std::map<std::string, int64_t, std::less<>>& counts() const { return counts_; }
  // The most frequent first.
  std::vector<std::string> by_frequency() const;

 private:
  std::map<std::string, int64_t, std::less<>> counts_;
  bool is_complete_ = true;
};

// The dates of a column: which of their parts differ.
struct DateProfile {
  int64_t count = 0;
  NumberSample days;  // since 1970, with the time as a fraction
  DistinctCount distinct_days;
  std::set<int> hours;
  double first = 0, last = 0;  // days

  void add(const DateTime& date);
};

// Mean and deviation in one pass (Welford).
class Moments {
 public:
  void add(double value);
  int64_t count() const { return count_; }
  double mean() const { return mean_; }
  double deviation() const;
  double skewness() const;  // 0 without deviation

 private:
  int64_t count_ = 0;
  double mean_ = 0, second_ = 0, third_ = 0;
};

// The values between one kind of separator.
struct ListProfile {
  char separator = ' ';
  int64_t fields = 0;  // with at least one separator
  int64_t values = 0;
  int64_t longest = 0;
  DistinctCount distinct;
  WordCounts words;
};

// Texts that are numbers in one of the forms of data/format/text/number_form.h, and not plain ones.
struct AmountProfile {
  int64_t count = 0;
  NumberSample numbers;
};

inline constexpr size_t kValuesListed = 64;
inline constexpr size_t kOtherTextsListed = 6;

// Not thread-safe. Plain data: init/column_choice.h draws the conclusions.
struct ColumnProfile {
  std::string name;
  bool is_text_file = true;  // values are text, or read as text; else the file has types
  bool is_typed = false;     // values are read as text, but numbers in the file
  bool is_list = false;      // in a columnar file: rows hold lists of values
  std::string unusable;      // why no feature can be made of the column; "" for most

  int64_t rows = 0;
  int64_t missing = 0;                    // empty fields
  std::map<std::string, int64_t> absent;  // texts that stand for missing values, with counts
  int64_t numbers = 0;
  int64_t integers = 0;          // numbers that are whole, "3.0" too
  int64_t decimal_integers = 0;  // integers with a point, "3.0"
  int64_t leading_zeros = 0;     // integers with leading zeros: "05064"
  int64_t wide_integers = 0;     // numbers of digits alone that do not fit 64 bits; not integers
  int64_t out_of_range = 0;      // numbers that a float cannot hold: 1e39; they count as texts
  std::string range_example;     // the first of them
  // The first kOtherTextsListed different texts that are neither numbers, amounts nor dates, and
  // not missing, with counts.
  std::map<std::string, int64_t, std::less<>> other_texts;
  int64_t with_point = 0;  // numbers with a point: "1.5"
  // Dates in text with the month and with the day first, and whole numbers as dates.
  DateProfile month_first, day_first, date_numbers;
  AmountProfile comma_groups, point_groups;  // "$3,456", "1.234,50"
  int64_t padded = 0;                        // values with spaces around them
  int64_t bags = 0;                          // rows with other than one value, in files with types
  int64_t shortest_list = std::numeric_limits<int64_t>::max();  // shortest list that is not empty
  int64_t longest_list = 0;
  bool ascends = true;  // each integer is its predecessor plus 1
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  Moments moments;
  NumberSample numbers_sample;
  DistinctCount distinct;
  WordCounts words;  // fields as they are in the file, of text files and of lists of text
  std::array<ListProfile, 4> lists{ListProfile{'|'}, ListProfile{';'}, ListProfile{','},
                                   ListProfile{' '}};
  // The first kValuesListed different values, without spaces around them, with counts.
  std::map<std::string, int64_t, std::less<>> values;
  bool has_all_values = true;

  // A field of a text file.
  void add_text(std::string_view text);
  // Values of files with types.
  void add_number(double value);
  void add_key(int64_t key);
  void add_missing();
  // A value of a list of text; add_list() follows.
  void add_list_text(std::string_view text);
  // A row whose values, `length` of them with missing ones, were added; `added` are not missing.
  void add_list(int64_t length, int64_t added);
  // The next value does not follow the last one in the file.
  void begin_piece() { has_previous_ = false; }

  int64_t present() const;  // rows with a value
  double missing_share() const;
  // A list of numbers of one length: a vector.
  bool is_vector() const { return is_list && integers == 0 && numbers > 0; }
  int64_t distinct_count() const;
  int64_t others() const;  // values that other_texts lists
  int64_t dates() const { return std::max(month_first.count, day_first.count); }

 private:
  void add_to_numbers(double value);
  void list_value(std::string_view text);
  void note_order(int64_t value);
  void note_other_text(std::string_view text);

  int64_t previous_ = 0;
  bool has_previous_ = false;
};

// Whether a text stands for a missing value: "NA", "?", "null", "-", "inf", ...
bool is_absent_text(std::string_view text);

// Whether the loader takes it for one in numeric columns without na_strings.
bool is_default_absent_text(std::string_view text);

}  // namespace emblem
