// serve/engine/batching/slo_batching.h - how long requests may wait for others to share their
// batch, so that batches are as large as a latency target permits.
//
// A target for the 99th percentile of arrival to answer leaves three tenths of it for reading
// requests and sending answers, which are not measured here. With the rest, T, a batch starts no
// later than
//
//   arrival of its oldest request + T - S(rows) - margin
//
// where S is the cautious estimate of its service time (ServiceTimes), so
// that a batch that grows starts earlier. The margin is for what the estimate does not know:
// waiting for a free engine or a core. It grows with each batch whose answers are late and shrinks
// with each whose are not, in the proportion of 1 to 200, so that it settles where p99 is within
// the target. It never exceeds half of T: late answers may be due to an overload, which smaller
// batches would make worse. Where waiting brings no further requests (the last batches had hardly
// any others), batches do not wait, except for one in 64, which finds out whether it would now.
//
// Not thread-safe. The caller passes the time.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

namespace emblem {

// How long batches of a model version take, by their rows: moving estimates from what was measured.
// Not thread-safe.
class ServiceTimes {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  void add(int64_t rows, Nanoseconds time);

  // The mean time of a batch of `rows`, nothing while none was measured. For sizes that were
  // not measured, an upper bound: the time of larger batches, or that of smaller ones in
  // proportion.
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

class SloBatching {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  // Batching for a target of clients.
  explicit SloBatching(Nanoseconds target);
  static Nanoseconds target_here(Nanoseconds target) { return target * 7 / 10; }  // T

  // What is left for waiting, from the arrival of a batch's oldest request on, when the batch has
  // `rows`. Never negative.
  Nanoseconds delay(int64_t rows, const ServiceTimes& times) const;
  bool expects_others() const { return others_ >= kEnoughOthers || batches_ % kProbeEvery == 0; }

  // A batch is done; `late` of its requests were answered after T.
  void finished(int64_t requests, int64_t late);

 private:
  Nanoseconds margin() const { return Nanoseconds(static_cast<int64_t>(margin_)); }

  static constexpr double kEnoughOthers = 0.5;
  static constexpr uint64_t kProbeEvery = 64;

  Nanoseconds target_;
  double margin_;      // ns
  double others_ = 0;  // requests of a batch beside its first; a moving mean
  uint64_t batches_ = 0;
};

}  // namespace emblem
