// ps/tables/periodic_task.h - something that is done again and again, on a thread of its own.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace emblem {

class PeriodicTask {
 public:
  struct Plan {
    std::string subject;
    double delay_s = 0.0;     // before the first time; 0: as long as the interval
    double interval_s = 0.0;  // between the end of one and the next
  };
  // `act` is called with a plan's subject, for one plan at a time. What it throws is logged as
  // "<purpose> of <subject>: ...", and it is called again at the next time.
  PeriodicTask(const char* purpose, std::vector<Plan> plans,
               std::function<void(const std::string&)> act);
  ~PeriodicTask();  // waits for the end of a call under way
  PeriodicTask(const PeriodicTask&) = delete;

 private:
  void work() noexcept;

  const std::vector<Plan> plans_;
  const std::vector<std::string> names_;  // names of the plans, for messages
  const std::function<void(const std::string&)> act_;
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace emblem
