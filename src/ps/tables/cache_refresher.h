// ps/tables/cache_refresher.h - has the rows of caches on devices read anew from time to time, as
// ps.json asks (refresh_delay, refresh_interval).
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace emblem {

class CacheRefresher {
 public:
  struct Plan {
    std::string model;
    double delay_s = 0.0;     // before the first time
    double interval_s = 0.0;  // between the end of one and the next
  };
  // `refresh` is called with a model's name, on a thread of its own. When it throws Error, that is
  // logged and it is called again at the next time.
  CacheRefresher(std::vector<Plan> plans, std::function<void(const std::string&)> refresh);
  ~CacheRefresher();  // waits for the end of a refresh under way
  CacheRefresher(const CacheRefresher&) = delete;

 private:
  void work();

  const std::vector<Plan> plans_;
  const std::function<void(const std::string&)> refresh_;
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace emblem
