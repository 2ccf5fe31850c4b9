// plan/probe/rank_timer.h - how long something takes on all ranks at once.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "comm/forwarded_ranks.h"
#include "core/device/context.h"

namespace emblem {

inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The median of the largest value of each row, [ranks] values each: every rank has `own`, one a
// repetition. Collective; equal on all ranks.
double median_of_slowest(Communicator& ranks, std::vector<double> own);
// The lower quartile: up to three quarters of the repetitions may have been disturbed.
double low_of_slowest(Communicator& ranks, std::vector<double> own);

// Collective: all ranks call the same functions.
class RankTimer {
 public:
  // `seconds`: for each measurement.
  RankTimer(const Context& context, Communicator& ranks, double seconds)
      : context_(context), ranks_(ranks), seconds_(seconds) {}

  // Seconds of a call that begins on all ranks at the same time, until the slowest has ended: the
  // lower quartile of at least 3.
  template <class Call>
  double all(Call&& call) {
    return measure([&](int64_t i) { call(i); });
  }
  // Times rank 0, while the others wait.
  template <class Call>
  double alone(Call&& call) {
    return measure([&](int64_t i) {
      if (ranks_.rank() == 0) call(i);
    });
  }

  // How often to repeat what took `seconds` the last time, with all that is done for it; equal on
  // all ranks.
  int64_t repetitions(double seconds);
  void barrier() { ranks_.barrier(); }
  Communicator& ranks() { return ranks_; }
  const Context& context() const { return context_; }

  // Times a call until the device has done it.
  template <class Call>
  double time(Call&& call) {
    const double begin = seconds_now();
    call();
    context_.synchronize();
    return seconds_now() - begin;
  }

 private:
  template <class Call>
  double measure(Call&& call) {
    int64_t done = 0;
    const auto once = [&] {
      ranks_.barrier();
      return time([&] { call(done++); });
    };
    once();
    const double begin = seconds_now();
    once();
    const int64_t wanted = repetitions(seconds_now() - begin);
    std::vector<double> own;
    for (int64_t i = 0; i < wanted; ++i) own.push_back(once());
    return low_of_slowest(ranks_, std::move(own));
  }

  Context context_;
  Communicator& ranks_;
  double seconds_;
};

// A communicator that adds up how long its exchanges took.
class TimedCommunicator : public ForwardedRanks {
 public:
  explicit TimedCommunicator(Communicator& inner) : ForwardedRanks(inner) {}

  // Time of each exchange since clear().
  const std::vector<double>& seconds() const { return seconds_; }
  void clear() { seconds_.clear(); }

 protected:
  void do_exchange(const Context& context, std::span<const Piece> send,
                   std::span<const Piece> receive) override {
    context.synchronize();
    const double begin = seconds_now();
    inner_.exchange(context, send, receive);
    context.synchronize();
    seconds_.push_back(seconds_now() - begin);
  }

 private:
  std::vector<double> seconds_;
};

}  // namespace emblem
