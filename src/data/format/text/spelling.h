// data/format/text/spelling.h - how the values of a column of text are written, so that a column of
// another type can be given the same text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/format/text/time_text.h"

namespace emblem {

struct Spelling {
  enum class Style : uint8_t {
    kUnknown,
    kPlain,  // numbers as data/format/text/number_text.h writes them: "9", "0.5"
    kPoint,  // the same, but whole ones as "9.0": floating-point numbers of pandas, Polars, DuckDB
    kFixed,  // numbers with `digits` digits after the point: decimals
    kBools,  // `yes` and `no` alone
    kTimes,  // dates or times in one format alone
    kWords,  // text without numbers
    kMixed,  // numbers that are written in different ways, as ids are ("007"), or among bools
  };

  Style style = Style::kUnknown;
  int digits = 0;
  std::string yes, no;
  TimeFormat format;

  // Whether the text of a number is known.
  bool has_numbers() const {
    return style == Style::kPlain || style == Style::kPoint || style == Style::kFixed;
  }
  bool operator==(const Spelling&) const = default;
};

// An example, by which a spelling is recorded: "9", "9.0", "9.00", "True", "2026-11-16",
// "2026-11-16T12:30:00.000000Z", "2026-11-16 12:30:00.5" (a fraction without zeros at its end);
// "text" and "mixed"; "" of kUnknown.
std::string name_of(const Spelling& spelling);

// The spelling that name_of calls so. Throws Error.
Spelling spelling_named(const std::string& name);

// Finds the spelling of all texts that are added.
class SpellingSample {
 public:
  void add(std::string_view text);  // empty ones do not count
  Spelling spelling() const;

 private:
  void add_number(std::string_view text);
  void add_bool(int pair);
  void add_time(const TimeFormat& format, std::string_view text);

  int64_t numbers_ = 0, bools_ = 0, times_ = 0, words_ = 0;
  bool plain_ = true, point_ = true, fixed_ = true;
  bool odd_ = false;  // "007", "+7", "1_000"
  int digits_ = -1;
  int pair_ = -1;  // pair of words for bools; -2: several
  TimeFormat format_;
  bool one_format_ = true, fixed_fraction_ = true, trimmed_fraction_ = true;
};

// "-12", "0.50", "1e+20": without spaces, plus signs and leading zeros.
bool is_number_literal(std::string_view text);
// "-12" of these.
bool is_integer_literal(std::string_view text);

// "True", "true" and "TRUE": 1; "False" and the like: 0; else -1.
int truth_of(std::string_view text);

// Whether a column of text holds floating-point numbers whose text is not the same from all
// writers. Writers agree on "0.5", and SpellingSample tells "9" from "9.0"; but 1e-7 is also
// "1e-07", 1e16 "10000000000000000.0", -0.0 "-0", and what is not a number "nan", "NaN" or nothing.
// Columns with such texts and numbers alone are read as numbers. 1E1 and 10E0 are no numbers: no
// program writes 10 so.
class FloatTexts {
 public:
  void add(std::string_view text);  // empty ones do not count
  bool are_floats() const {
    return others_ == 0 && (varying_ > 0 || (fractions_ > 0 && specials_ > 0));
  }

 private:
  int64_t varying_ = 0;    // "1e-07", "-0.0"
  int64_t fractions_ = 0;  // "0.5"
  int64_t specials_ = 0;   // "nan", "inf"
  int64_t others_ = 0;     // no numbers
};

}  // namespace emblem
