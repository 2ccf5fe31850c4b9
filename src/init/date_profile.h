// init/date_profile.h - the dates of a column: which of their parts differ.
#pragma once

#include <cstdint>
#include <set>

#include "data/distinct_count.h"
#include "data/format/date_text.h"
#include "init/value_samples.h"

namespace emblem {

struct DateProfile {
  int64_t count = 0;
  NumberSample days;  // since 1970, with the time as a fraction
  DistinctCount distinct_days;
  std::set<int> hours;
  double first = 0, last = 0;  // days

  void add(const DateTime& date);
};

}  // namespace emblem
