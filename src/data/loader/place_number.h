// data/loader/place_number.h - the place of a batch in the data as a number: what is drawn for a
// batch depends on it, so that a run that resumes draws the same.
#pragma once

#include <cstdint>

#include "core/math/hash.h"
#include "data/batch.h"

namespace emblem {

inline uint64_t place_number(const DataPosition& next) {
  uint64_t number = mix64(static_cast<uint64_t>(next.epoch));
  number = mix64(number ^ static_cast<uint64_t>(next.rows_in_epoch));
  for (const StreamPosition& partition : next.stream)
    for (const int64_t part : {int64_t{partition.partition}, partition.offset, partition.row})
      number = mix64(number ^ static_cast<uint64_t>(part));
  return number;
}

}  // namespace emblem
