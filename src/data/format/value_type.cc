#include "data/format/value_type.h"

#include "emblem/error.h"

namespace emblem {
namespace {

struct Unit {
  const char* name;
  int64_t ticks_per_day;
};

constexpr Unit kUnits[] = {{"day", 1},
                           {"s", 86400},
                           {"ms", int64_t{86400} * 1000},
                           {"us", int64_t{86400} * 1000000},
                           {"ns", int64_t{86400} * 1000000000}};

struct Kind {
  const char* name;
  ValueKind kind;
};

constexpr Kind kKinds[] = {{"bool", ValueKind::kBool},        {"integer", ValueKind::kInteger},
                           {"float", ValueKind::kFloat},      {"double", ValueKind::kDouble},
                           {"text", ValueKind::kText},        {"date", ValueKind::kDate},
                           {"time", ValueKind::kTime},        {"timestamp", ValueKind::kTimestamp},
                           {"duration", ValueKind::kDuration}};

bool has_unit(ValueKind kind) { return kind >= ValueKind::kDate; }

// Ticks per day of "kind[unit]" and "kind[unit, more]".
int64_t ticks_named(std::string_view name) {
  const size_t begin = name.find('[');
  if (begin == name.npos) return 0;
  const size_t end = name.find_first_of(",]", begin);
  for (const Unit& unit : kUnits)
    if (name.substr(begin + 1, end - begin - 1) == unit.name) return unit.ticks_per_day;
  return 0;
}

}  // namespace

std::string name_of(const ValueType& type) {
  std::string name;
  for (const Kind& kind : kKinds)
    if (kind.kind == type.kind) name = kind.name;
  for (const Unit& unit : kUnits)
    if (has_unit(type.kind) && unit.ticks_per_day == type.ticks_per_day)
      name += cat("[", unit.name, "]");
  return name;
}

ValueType value_type_named(const std::string& name) {
  ValueType type;
  for (const Kind& kind : kKinds)
    if (name.substr(0, name.find('[')) == kind.name) type.kind = kind.kind;
  if (has_unit(type.kind)) type.ticks_per_day = ticks_named(name);
  const bool is_whole = type.is_temporal() == has_unit(type.kind);
  EMBLEM_REQUIRE(!name.empty() && is_whole && name_of(type) == name,
                 "data_config.column_types: kind \"", name,
                 "\" is not known to this version of Emblem; expected bool, integer, float, "
                 "double, text, date[day], timestamp[us] or the like");
  return type;
}

ValueType value_type_stored_as(std::string_view stored) {
  const auto temporal = [&](ValueKind kind) { return ValueType{kind, ticks_named(stored)}; };
  if (stored == "bool") return {ValueKind::kBool};
  if (stored.starts_with("date")) return temporal(ValueKind::kDate);
  if (stored.starts_with("timestamp[")) return temporal(ValueKind::kTimestamp);
  if (stored.starts_with("time")) return temporal(ValueKind::kTime);
  if (stored.starts_with("duration[")) return temporal(ValueKind::kDuration);
  return {};
}

bool convert_ticks(int64_t value, const ValueType& from, const ValueType& to, int64_t& converted) {
  if (to.ticks_per_day >= from.ticks_per_day)
    return !__builtin_mul_overflow(value, to.ticks_per_day / from.ticks_per_day, &converted);
  const int64_t divisor = from.ticks_per_day / to.ticks_per_day;
  converted = value / divisor;
  return value % divisor == 0;
}

}  // namespace emblem
