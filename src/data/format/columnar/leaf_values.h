// data/format/columnar/leaf_values.h - values of the types of columnar files, appended to a Column
// of the type that data/format/columnar/columnar_field.h's read_type says.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/math/half.h"
#include "data/format/columnar/columnar_field.h"
#include "data/format/text/number_text.h"
#include "emblem/error.h"

namespace emblem {

inline void append_text(std::string_view value, Column& out) {
  out.text += value;
  out.text_ends.push_back(static_cast<uint32_t>(out.text.size()));
}

// Value `index` of a column of kInt64 that is stored as a double.
inline int64_t integer_of(double value, int64_t index, std::vector<ValueProblem>& problems) {
  int64_t integer = 0;
  if (!to_integer(value, integer)) {
    std::string text;
    write_number(value, text);
    problems.push_back(
        {index, cat(text, " is not an integer (expected a whole number of 64 bits)")});
  }
  return integer;
}

template <class T>
void append_number_text(T value, Column& out) {
  write_value(value, out.text);
  out.text_ends.push_back(static_cast<uint32_t>(out.text.size()));
}

// ColumnSpec::stored of decimals with digits after the point: text where a double has fewer digits.
inline std::string stored_decimal(int precision, int scale) {
  return scale > 0 && precision <= 15 ? "double" : "";
}

// Appends `count` values, none of them missing. A double that is NaN is a missing value.
template <class T>
void append_numbers(const T* values, int64_t count, Column& out,
                    std::vector<ValueProblem>& problems) {
  const auto size = static_cast<size_t>(count);
  if (out.type == ColumnType::kFloat) {
    const size_t begin = out.floats.size();
    out.floats.resize(begin + size);
    float* to = out.floats.data() + begin;
    for (size_t i = 0; i < size; ++i) to[i] = static_cast<float>(values[i]);
  } else if (out.type == ColumnType::kText) {
    for (size_t i = 0; i < size; ++i) append_number_text(values[i], out);
  } else {
    const size_t begin = out.ints.size();
    out.ints.resize(begin + size);
    int64_t* to = out.ints.data() + begin;
    if constexpr (std::is_floating_point_v<T>) {
      for (size_t i = 0; i < size; ++i) {
        const bool is_missing = std::isnan(values[i]);
        to[i] = is_missing ? 0 : integer_of(values[i], static_cast<int64_t>(begin + i), problems);
        if (!is_missing) continue;
        if (out.missing.size() < begin + size) out.missing.resize(begin + size, 0);
        out.missing[begin + i] = 1;
      }
    } else {
      for (size_t i = 0; i < size; ++i) to[i] = static_cast<int64_t>(values[i]);
    }
  }
}

// A float16.
inline void append_half(uint16_t bits, Column& out, std::vector<ValueProblem>& problems) {
  const float value = F16{bits}.to_float();
  append_numbers(&value, 1, out, problems);
}

// A decimal number without digits after the point, which may be too large.
inline void append_integer_text(const std::string& digits, Column& out,
                                std::vector<ValueProblem>& problems) {
  int64_t integer = 0;
  const char* const end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, integer);
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    integer = 0;
    problems.push_back(
        {static_cast<int64_t>(values_in(out)), cat(digits, " does not fit 64 bits")});
  }
  append_numbers(&integer, 1, out, problems);
}

inline void append_missing(Column& out) {
  if (out.type == ColumnType::kFloat) {
    out.floats.push_back(std::numeric_limits<float>::quiet_NaN());
  } else if (out.type == ColumnType::kInt64) {
    out.missing.resize(out.ints.size(), 0);
    out.missing.push_back(1);
    out.ints.push_back(0);
  } else if (out.dictionary != nullptr) {
    out.codes.push_back(-1);
  } else {
    out.text_ends.push_back(static_cast<uint32_t>(out.text.size()));
  }
}

// After the last value: `missing` has an entry for each value, or none.
inline void finish_values(Column& out) {
  if (!out.missing.empty()) out.missing.resize(out.ints.size(), 0);
  EMBLEM_REQUIRE(out.text.size() <= std::numeric_limits<uint32_t>::max(), "a column has ",
                 out.text.size(),
                 " bytes of text in a piece; expected less than 4 GiB: use smaller batches");
}

// `weights` become those of the values of `out`; none may be missing.
inline void set_weights(HostVector<float>& weights, Column& out,
                        std::vector<ValueProblem>& problems) {
  for (size_t i = 0; i < weights.size(); ++i)
    if (std::isnan(weights[i]))
      problems.push_back({static_cast<int64_t>(i), "a value has no weight"});
  std::swap(out.weights, weights);
}

// Nanoseconds since 1970 of a Julian day and the nanoseconds in it: what Spark's INT96 holds.
inline int64_t nanoseconds_of(int64_t julian_day, int64_t nanoseconds) {
  constexpr int64_t kEpoch = 2440588, kDay = int64_t{86400} * 1000000000;
  return static_cast<int64_t>(
      (static_cast<uint64_t>(julian_day - kEpoch) * static_cast<uint64_t>(kDay)) +
      static_cast<uint64_t>(nanoseconds));
}

}  // namespace emblem
