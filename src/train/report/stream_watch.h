// train/report/stream_watch.h - what a run reports about the topic that it reads.
#pragma once

#include <chrono>
#include <string>
#include <utility>

namespace emblem {

// Logs one line when brokers go away, one when messages come again, and one when a new run finds
// none for long. Used by one thread.
class StreamWatch {
 public:
  explicit StreamWatch(std::string topic) : topic_(std::move(topic)) {}

  // Why nothing can be read at the moment; empty: none is known.
  void set_problem(const std::string& problem);

  // Called now and then by a run that waits for its first rows.
  void wait_for_first();

 private:
  using Clock = std::chrono::steady_clock;

  std::string topic_;
  bool has_problem_ = false;
  Clock::time_point begin_ = Clock::now();
  bool has_waited_long_ = false;
};

}  // namespace emblem
