// data/format/float_texts.h - whether a column of text holds floating-point numbers whose text is
// not the same from all writers.
#pragma once

#include <cstdint>
#include <string_view>

namespace emblem {

// Writers agree on "0.5", and data/format/spelling.h tells "9" from "9.0"; but 1e-7 is also
// "1e-07", 1e16 "10000000000000000.0", -0.0 "-0", and what is no number "nan", "NaN" or nothing.
// Columns with such texts and numbers alone are read as numbers.
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
