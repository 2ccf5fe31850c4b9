// train/report/run_clock.h - where the time of a run goes.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "core/system/trace.h"

namespace emblem {

// Counts from start(). Used by one thread.
class RunClock {
 public:
  using Clock = std::chrono::steady_clock;

  // `trace`, where given, gets a bar for each interval and must outlive this.
  explicit RunClock(Trace* trace) : trace_(trace) {}

  void start() { begin_ = step_begin_ = Clock::now(); }

  // An interval that is not training: evaluations, checkpoints, deltas.
  class Pause {
   public:
    Pause(RunClock& clock, const char* name) : clock_(clock), name_(name) {}
    ~Pause() { clock_.end_pause(begin_, name_); }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
    double seconds() const { return seconds_between(begin_, Clock::now()); }

   private:
    RunClock& clock_;
    const char* name_;
    Clock::time_point begin_ = Clock::now();
  };

  // Calls body(), which has a result, as a part of training that the timeline shows.
  template <class Body>
  auto traced(const char* name, Body&& body) {
    const int64_t begin_ns = trace_now();
    auto result = body();
    if (trace_ != nullptr) trace_->add(name, begin_ns, trace_now());
    return result;
  }

  // A step takes from the end of the one before, or of the pause after it, to end_step().
  void begin_step() { step_begin_ = Clock::now(); }
  void end_step();
  double step_seconds(double quantile) const;  // 0 without steps

  double seconds() const { return seconds_between(begin_, Clock::now()); }
  double training_seconds() const { return seconds() - paused_seconds_; }

  // The rate since the last call: new rows of `rows`, which are all so far, by the training
  // time since then.
  double rows_per_second(int64_t rows);

  static double seconds_between(Clock::time_point begin, Clock::time_point end) {
    return std::chrono::duration<double>(end - begin).count();
  }

 private:
  void end_pause(Clock::time_point begin, const char* name);

  Trace* trace_;
  Clock::time_point begin_ = Clock::now(), step_begin_ = begin_;
  double paused_seconds_ = 0.0;
  std::vector<float> step_seconds_;
  double rate_begin_ = 0.0;  // in training seconds
  int64_t rate_rows_ = 0;
};

}  // namespace emblem
