#include "data/format/columnar/decimal_values.h"

#include "data/format/columnar/leaf_values.h"

#ifdef EMBLEM_WITH_ARROW
#include <arrow/util/decimal.h>

#include "data/format/columnar/arrow_input.h"
#else
#include "data/source/objects/arrow_absence.h"
#endif

namespace emblem {

#ifdef EMBLEM_WITH_ARROW
namespace {

template <class Decimal>
void append_decimal(const Decimal& decimal, int scale, bool exact, Column& out,
                    std::vector<ValueProblem>& problems) {
  if (scale <= 0) {
    std::string digits = decimal.ToIntegerString();
    if (digits != "0") digits.append(static_cast<size_t>(-scale), '0');
    return exact ? append_text(digits, out) : append_integer_text(digits, out, problems);
  }
  if (exact) return append_text(decimal.ToString(scale), out);
  const double number = decimal.ToDouble(scale);
  append_numbers(&number, 1, out, problems);
}

}  // namespace

void append_big_endian_decimal(const uint8_t* value, int bytes, int scale, bool exact, Column& out,
                               std::vector<ValueProblem>& problems) {
  append_decimal(value_of(arrow::Decimal256::FromBigEndian(value, bytes), "a decimal number"),
                 scale, exact, out, problems);
}

void append_little_endian_decimal(const uint8_t* value, int bytes, int scale, bool exact,
                                  Column& out, std::vector<ValueProblem>& problems) {
  if (bytes == 16) return append_decimal(arrow::Decimal128(value), scale, exact, out, problems);
  append_decimal(arrow::Decimal256(value), scale, exact, out, problems);
}

#else

void append_big_endian_decimal(const uint8_t*, int, int, bool, Column&,
                               std::vector<ValueProblem>&) {
  throw Error(ErrorCode::kUnsupported, cat("decimal numbers cannot be read: ", arrow_absence()));
}

void append_little_endian_decimal(const uint8_t* value, int bytes, int scale, bool exact,
                                  Column& out, std::vector<ValueProblem>& problems) {
  append_big_endian_decimal(value, bytes, scale, exact, out, problems);
}

#endif

}  // namespace emblem
