// serve/engine/slo_batching.h - how long requests may wait for others to share their batch, so that
// batches are as large as a latency target permits.
//
// A target for the 99th percentile of arrival to answer leaves three tenths of it for reading
// requests and sending answers, which are not measured here. With the rest, T, a batch starts no
// later than
//
//   arrival of its oldest request + T - S(rows) - margin
//
// where S is the cautious estimate of its service time (serve/engine/service_times.h), so that a
// batch that grows starts earlier. The margin is for what the estimate does not know: waiting for a
// free engine or a core. It grows with each batch whose answers are late and shrinks with each
// whose are not, in the proportion of 1 to 200, so that it settles where p99 is within the target.
// It never exceeds half of T: late answers may be due to an overload, which smaller batches would
// make worse.
// Where waiting brings no further requests (the last batches had hardly any company), batches do
// not wait, except for one in 64, which finds out whether it would now.
//
// Not thread-safe. The caller passes the time.
#pragma once

#include <chrono>
#include <cstdint>

#include "serve/engine/service_times.h"

namespace emblem {

class SloBatching {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  // For a target of clients.
  explicit SloBatching(Nanoseconds target);
  static Nanoseconds target_here(Nanoseconds target) { return target * 7 / 10; }  // T

  // What is left for waiting, from the arrival of a batch's oldest request on, when the batch has
  // `rows`. Never negative.
  Nanoseconds delay(int64_t rows, const ServiceTimes& times) const;
  bool expects_company() const { return company_ >= kEnoughCompany || batches_ % kProbeEvery == 0; }

  // A batch is done; `late` of its requests were answered after T.
  void finished(int64_t requests, int64_t late);

 private:
  Nanoseconds margin() const { return Nanoseconds(static_cast<int64_t>(margin_)); }

  static constexpr double kEnoughCompany = 0.5;
  static constexpr uint64_t kProbeEvery = 64;

  Nanoseconds target_;
  double margin_;       // ns
  double company_ = 0;  // requests of a batch beside its first; a moving mean
  uint64_t batches_ = 0;
};

}  // namespace emblem
