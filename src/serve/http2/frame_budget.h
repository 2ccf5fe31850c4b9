// serve/http2/frame_budget.h - how many frames without use a client may send.
#pragma once

#include <algorithm>
#include <chrono>

namespace emblem {

// Tokens that are spent on frames that cost the server work and bring nothing (PING, SETTINGS,
// PRIORITY, WINDOW_UPDATE, DATA that is empty or padding alone, frames of unknown types, malformed
// ones), and earned by time and by frames that carry data.
class FrameBudget {
 public:
  using Time = std::chrono::steady_clock::time_point;

  FrameBudget(double burst, double per_second, Time now)
      : burst_(burst), per_second_(per_second), tokens_(burst), filled_(now) {}

  // False when there are not enough left.
  bool spend(double tokens, Time now) {
    if (tokens_ < tokens) {
      earn(std::chrono::duration<double>(now - filled_).count() * per_second_);
      filled_ = now;
    }
    if (tokens_ < tokens) return false;
    tokens_ -= tokens;
    return true;
  }

  void earn(double tokens) { tokens_ = std::min(burst_, tokens_ + tokens); }

 private:
  double burst_, per_second_, tokens_;
  Time filled_;
};

}  // namespace emblem
