#include "core/system/warn_once.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "core/system/log.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

struct Warned {
  std::mutex mutex;
  std::map<std::string, Clock::time_point> last;  // by key
};

Warned& warned() {
  static Warned instance;
  return instance;
}

}  // namespace

void warn_once(const std::string& key, const std::string& line, Clock::duration period) {
  constexpr size_t kMostKeys = 512;
  const Clock::time_point now = Clock::now();
  const std::lock_guard lock(warned().mutex);
  auto& last = warned().last;
  const auto found = last.find(key);
  if (found != last.end() && now - found->second < period) return;
  if (found == last.end() && last.size() == kMostKeys)
    last.erase(std::min_element(last.begin(), last.end(),
                                [](const auto& a, const auto& b) { return a.second < b.second; }));
  last[key] = now;
  log_warn(line);
}

void forget_warnings() {
  const std::lock_guard lock(warned().mutex);
  warned().last.clear();
}

}  // namespace emblem
