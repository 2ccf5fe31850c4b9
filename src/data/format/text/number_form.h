// data/format/text/number_form.h - numbers that are written otherwise than 1234.5: amounts with
// groups of digits, and dates, of which a part is the number.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/proto/feature.pb.h"

namespace emblem {

// How the values of a numeric column are written.
struct NumberForm {
  config::NumberFormat format = config::PLAIN;
  config::DatePart part = config::NO_DATE;
  bool day_first = false;
  std::vector<std::string> na_strings;  // missing values, in addition to those of all columns

  bool is_date() const { return part != config::NO_DATE; }
  // Plain numbers are read by parse_float.
  bool is_plain() const { return format == config::PLAIN && !is_date(); }
  bool operator==(const NumberForm&) const = default;
};

// "$1,234.50", "12 %", "(7)", "7-", "1.234,50 EUR", "1'234.50", "1 234,50". False for what is not
// such a number; plain numbers are if they have no separator of groups. `format` is not PLAIN.
bool parse_amount(std::string_view text, config::NumberFormat format, float& value);

// `form` is not plain. An empty text is a missing value (NaN). False for text of another form.
bool parse_number_form(std::string_view text, const NumberForm& form, float& value);

// What a number has to look like, for messages: "a date like 2024-05-01 10:00".
std::string expected_of(const NumberForm& form);

}  // namespace emblem
