// launch/console.h - standard output and standard error of the launcher, which the ranks share.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace emblem {

class Console {
 public:
  // `while_full` is called whenever something is to be written, and again and again as long as no
  // more can be written because the reader is slow: it handles signals.
  explicit Console(std::function<void()> while_full) : while_full_(std::move(while_full)) {}

  // A whole line of a rank, to standard output (1) or standard error (2).
  void write_line(int descriptor, std::string_view line);
  // Bytes as they are; they need not end with a newline.
  void write_raw(int descriptor, std::string_view bytes);
  // Before a line: ends one that has begun. A progress bar on the terminal is cleared.
  void end_open_lines(int descriptor);

 private:
  void give_up(int descriptor);
  void write_all(int descriptor, std::string_view bytes);

  std::function<void()> while_full_;
  bool is_open_[3] = {false};    // the last byte was not a newline
  bool is_closed_[3] = {false};  // the reader of a descriptor has left
};

}  // namespace emblem
