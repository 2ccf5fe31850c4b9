// core/system/progress.h - one line of progress: a bar that redraws itself on a terminal, plain
// lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace emblem {

class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  // total 0: unknown, shows the count and the rate alone; otherwise the percentage and the time
  // left as well. Writes to stderr. `now` is the clock.
  Progress(std::string title, int64_t total, std::string unit = "rows",
           std::function<Clock::time_point()> now = Clock::now);
  ~Progress();  // ends the line

  // The first call says where counting begins (0, or the rows done before a resume): rate and time
  // left count from there. `note` is shown after the rate ("loss 0.452"); on a narrow terminal the
  // counts make room for it. Redraws at most 10 times a second on a terminal, and prints a line at
  // most every 10 seconds elsewhere.
  void update(int64_t done, const std::string& note = "");
  // For a total that is learned, or estimated better and better, on the way.
  void set_total(int64_t total) { total_ = total; }
  void finish(const std::string& note = "");
  // Clears the bar so that a line can be printed; the next update draws it again.
  void interrupt();

 private:
  enum class Detail { kAll, kWithoutCounts };
  std::string line(int64_t done, const std::string& note, Detail detail) const;
  std::string line_that_fits(size_t columns, int64_t done, const std::string& note) const;

  std::string title_, unit_;
  int64_t total_, done_ = 0;
  int64_t first_done_ = -1;  // where counting began (not 0 after a resume)
  bool terminal_, finished_ = false;
  std::function<Clock::time_point()> now_;
  Clock::time_point start_, last_;
};

}  // namespace emblem
