// serve/engine/request_changes.h - warns of values of requests that were not taken as they are:
// sequences that were cut or padded, infinite numbers, ids outside of their tables.
#pragma once

#include <atomic>
#include <string>

#include "data/feature/feature_counts.h"

namespace emblem {

// Thread-safe.
class RequestChanges {
 public:
  // `model` is named in warnings.
  explicit RequestChanges(std::string model) : model_(std::move(model)) {}

  // Logs a warning for each kind of change that it has not seen before.
  void note(const FeatureCounts& counts) const;

 private:
  const std::string model_;
  mutable std::atomic<unsigned> seen_ = 0;  // a bit per kind
};

}  // namespace emblem
