#include "init/date_profile.h"

#include <algorithm>

#include "core/hash.h"

namespace emblem {

void DateProfile::add(const DateTime& date) {
  const auto day = static_cast<double>(date.days);
  first = count == 0 ? day : std::min(first, day);
  last = count == 0 ? day : std::max(last, day);
  ++count;
  days.add(static_cast<double>(date_number(date, config::DAYS)));
  distinct_days.add(hash_of_integer(date.days));
  hours.insert(static_cast<int>(date.seconds) / 3600);
}

}  // namespace emblem
