#include "core/system/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/text/text.h"

namespace emblem {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr Seconds kRedraw{0.1};
constexpr Seconds kPlainLine{10.0};
constexpr const char* kClearLine = "\r\033[K";
constexpr size_t kMostBarCells = 24, kFewestBarCells = 8;

size_t terminal_columns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

// A bar in the columns that `text` leaves free, with kFewestBarCells at the least.
std::string bar(double share, size_t text) {
  const size_t columns = terminal_columns(),
               taken = text + 4;  // brackets, a space, the last column
  const size_t cells =
      std::clamp(columns - std::min(columns, taken), kFewestBarCells, kMostBarCells);
  const auto full = static_cast<size_t>(share * static_cast<double>(cells));
  return '[' + std::string(full, '#') + std::string(cells - full, '.') + "] ";
}

void print(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace

Progress::Progress(std::string title, int64_t total, std::string unit,
                   std::function<Clock::time_point()> now)
    : title_(std::move(title)),
      unit_(std::move(unit)),
      total_(total),
      terminal_(isatty(STDERR_FILENO) == 1),
      now_(std::move(now)),
      start_(now_()),
      last_(start_) {}

Progress::~Progress() {
  if (terminal_ && !finished_ && first_done_ >= 0) print("\n");
}

std::string Progress::line(int64_t done, const std::string& note, Detail detail) const {
  const double elapsed = Seconds(now_() - start_).count();
  const double counted = static_cast<double>(done - std::max<int64_t>(first_done_, 0));
  const double rate = elapsed > 0 ? counted / elapsed : 0;

  const std::string head = title_ + ": ";
  std::string text;
  double share = 0;
  if (total_ > 0) {
    share = std::clamp(static_cast<double>(done) / static_cast<double>(total_), 0.0, 1.0);
    text = fmt::format("{:.0f}%", share * 100);
    if (detail == Detail::kAll)
      text += fmt::format(" {} of {} {}", format_count(static_cast<double>(done)),
                          format_count(static_cast<double>(total_)), unit_);
  } else {
    text = fmt::format("{} {}", format_count(static_cast<double>(done)), unit_);
  }
  if (counted > 0) text += fmt::format(", {} {}/s", format_count(std::round(rate)), unit_);
  if (finished_) {
    text += ", " + format_duration(elapsed);
  } else if (total_ > 0 && rate > 0) {
    text += ", " +
            format_duration(static_cast<double>(std::max<int64_t>(total_ - done, 0)) / rate) +
            " left";
  }
  if (!note.empty()) text += ", " + note;
  const bool with_bar = terminal_ && total_ > 0;
  return head + (with_bar ? bar(share, head.size() + text.size()) : "") + text;
}

std::string Progress::line_that_fits(size_t columns, int64_t done, const std::string& note) const {
  std::string text = line(done, note, Detail::kAll);
  if (text.size() > columns && !note.empty()) text = line(done, note, Detail::kWithoutCounts);
  if (text.size() <= columns) return text;
  // As many whole parts as fit.
  const size_t end = text.rfind(", ", columns);
  return text.substr(0, end == std::string::npos ? columns : end);
}

void Progress::update(int64_t done, const std::string& note) {
  const auto now = now_();
  done_ = done;
  if (first_done_ < 0) {
    first_done_ = done;
    start_ = now;
  }
  if (now - last_ < (terminal_ ? kRedraw : kPlainLine)) return;
  last_ = now;
  print(terminal_ ? kClearLine + line_that_fits(terminal_columns() - 1, done, note)
                  : line(done, note, Detail::kAll) + '\n');
}

void Progress::finish(const std::string& note) {
  if (finished_) return;
  finished_ = true;
  print((terminal_ ? kClearLine : "") + line(done_, note, Detail::kAll) + '\n');
}

void Progress::interrupt() {
  if (terminal_ && !finished_) print(kClearLine);
}

}  // namespace emblem
