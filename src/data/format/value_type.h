// data/format/value_type.h - what the values of a column are, apart from how they are stored.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace emblem {

enum class ValueKind : uint8_t {
  kUnknown,
  kBool,
  kInteger,  // integers of any width, decimals of scale 0
  kFloat,    // float16, float
  kDouble,   // double, decimals with a scale
  kText,     // strings, binary, fields of text files
  kDate,
  kTime,  // time of a day
  kTimestamp,
  kDuration,
};

struct ValueType {
  ValueKind kind = ValueKind::kUnknown;
  int64_t ticks_per_day = 0;  // for dates and times, which are integers: 1 for days

  bool is_temporal() const { return ticks_per_day > 0; }
  bool is_point_in_time() const {
    return kind == ValueKind::kDate || kind == ValueKind::kTimestamp;
  }
  bool is_number() const {
    return kind == ValueKind::kBool || kind == ValueKind::kInteger || kind == ValueKind::kFloat ||
           kind == ValueKind::kDouble;
  }
  bool operator==(const ValueType&) const = default;
};

// "integer", "date[day]", "timestamp[us]"; "" of kUnknown.
std::string name_of(const ValueType& type);

// The type that name_of calls so. Throws Error.
ValueType value_type_named(const std::string& name);

// The type by Arrow's names, which ColumnSpec::stored has: "bool", "date32[day]", "timestamp[us,
// tz=UTC]", "time64[us]", "duration[ms]". kUnknown for others.
ValueType value_type_stored_as(std::string_view stored);

// Converts a date or a time from one unit to another; false where that is not exact.
bool convert_ticks(int64_t value, const ValueType& from, const ValueType& to, int64_t& converted);

}  // namespace emblem
