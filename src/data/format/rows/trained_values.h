// data/format/rows/trained_values.h - what the values of a column were in training, and how values
// of another kind or spelling become the same (docs/formats.md, "The text of a value").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/format/text/spelling.h"
#include "data/format/value_type.h"

namespace emblem {

struct TrainedValues {
  ValueType type;     // kUnknown: not recorded
  Spelling spelling;  // spelling of kText

  bool is_known() const { return type.kind != ValueKind::kUnknown; }
  // Whether respell() may change a text or refuse it.
  bool changes_text() const {
    if (type.kind != ValueKind::kText) return is_known();
    return spelling.has_numbers() || spelling.style == Spelling::Style::kBools ||
           spelling.style == Spelling::Style::kTimes;
  }
  // Whether text stands for something else than a number of 64 bits: a bool, a date, a time.
  bool has_words() const { return type.kind == ValueKind::kBool || type.is_temporal(); }

  bool operator==(const TrainedValues&) const = default;
};

enum class Respelled : uint8_t {
  kSame,
  kChanged,
  kMissing,
  kRefused,
};

// What a value with the text `text` was in training. The text is that of a text file, of a request
// or, of a value with a type, that of data/format/text/number_text.h, with bools as "1" and "0".
// kChanged: `out` is overwritten with the text of training; kRefused: with the reason, as in `"x"
// is not an integer, as the column's values were in training`.
Respelled respell(const TrainedValues& trained, std::string_view text, std::string& out);

// Why a column with values of type `found`, as which it is called `found_name`, cannot be read for
// a model with `trained` values, with what to do; "": it can. Text always can: respell() refuses
// single values.
std::string kind_problem(const TrainedValues& trained, const ValueType& found,
                         const std::string& found_name);

}  // namespace emblem
