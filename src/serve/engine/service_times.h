// serve/engine/service_times.h - how long batches of a model version take, by their rows: moving
// estimates from what was measured.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

namespace emblem {

// Not thread-safe.
class ServiceTimes {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  void add(int64_t rows, Nanoseconds time);

  // Of a batch of `rows`, nothing while none was measured. For sizes that were not measured, an
  // upper bound: the time of larger batches, or that of smaller ones in proportion.
  std::optional<Nanoseconds> mean(int64_t rows) const;
  // Mean and three mean deviations, which few batches exceed.
  std::optional<Nanoseconds> cautious(int64_t rows) const;

  // Sizes with the same estimate: those that differ by less than a quarter.
  static size_t size_class(int64_t rows);

 private:
  struct SizeClass {
    bool measured = false;
    double mean = 0, deviation = 0;  // ns
  };
  static double smallest_of(size_t size_class);  // rows
  template <class Value>
  std::optional<Nanoseconds> estimate(int64_t rows, Value value) const;

  std::array<SizeClass, 128> classes_{};
};

}  // namespace emblem
