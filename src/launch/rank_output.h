// launch/rank_output.h - what a rank prints: to the console, line by line, and to its log file.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/files/file_descriptor.h"

namespace emblem {

enum class LineEnd { kNewline, kNone };

// Bytes that arrive in pieces, as whole lines.
class LineBuffer {
 public:
  static constexpr size_t kLongestLine = size_t{1} << 20;  // longer ones are cut

  // Calls take_line(line, LineEnd::kNewline) for each line that is now complete, without its
  // newline.
  template <class TakeLine>
  void add(std::string_view bytes, const TakeLine& take_line) {
    for (size_t end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
      rest_ += bytes.substr(0, end);
      take_line(std::string_view(rest_), LineEnd::kNewline);
      rest_.clear();
      bytes.remove_prefix(end + 1);
    }
    rest_ += bytes;
    if (rest_.size() >= kLongestLine) finish(take_line);
  }
  // The last line, where it has no newline.
  template <class TakeLine>
  void finish(const TakeLine& take_line) {
    if (!rest_.empty()) take_line(std::string_view(rest_), LineEnd::kNone);
    rest_.clear();
  }

 private:
  std::string rest_;
};

// Standard output and standard error of the launcher, which the ranks share.
class Console {
 public:
  // `while_full` is called whenever something is to be written, and again and again as long as no
  // more can be written because the reader is slow: it handles signals.
  explicit Console(std::function<void()> while_full) : while_full_(std::move(while_full)) {}

  // A whole line of a rank, to standard output (1) or standard error (2).
  void write_line(int descriptor, std::string_view line);
  // Bytes as they are; they need not end with a newline.
  void write_raw(int descriptor, std::string_view bytes);
  // Prepares for a line: ends one that has begun. A progress bar on the terminal is cleared.
  void end_open_lines(int descriptor);

 private:
  void give_up(int descriptor);
  void write_all(int descriptor, std::string_view bytes);

  std::function<void()> while_full_;
  bool is_open_[3] = {false};    // the last byte was not a newline
  bool is_closed_[3] = {false};  // the reader of a descriptor has left
};

// A remote rank writes this line to stderr when the connection is made; it is not shown.
inline constexpr std::string_view kStartedLine = "\001emblem launch: connected";

enum class LogFile { kNew, kContinued };

class RankOutput {
 public:
  // Lines of rank 0 are shown as they are, those of the others as "rank 3: ...". `log_folder` "":
  // no log file. Throws where the log cannot be written.
  RankOutput(int rank, Console& console, const std::string& log_folder, LogFile log);
  ~RankOutput();
  RankOutput(const RankOutput&) = delete;
  RankOutput& operator=(const RankOutput&) = delete;

  // What the program writes its stdout and stderr to; the caller closes them after starting it.
  // Rank 0 has a terminal where this process has one, so that its progress is shown.
  struct Ends {
    FileDescriptor output{-1}, error_output{-1};
  };
  Ends open();

  // What is readable when there is something to take; -1: closed.
  int output_descriptor() const { return output_.descriptor.get(); }
  int error_descriptor() const { return errors_.descriptor.get(); }
  void take_available();
  // Called after the end of the rank: takes what is left.
  void finish();

  const std::string& last_error_line() const { return last_error_line_; }
  bool mentions_used_port() const { return mentions_used_port_; }
  bool has_connected() const { return has_connected_; }

 private:
  struct Stream {
    int to;  // 1 or 2
    FileDescriptor descriptor{-1};
    LineBuffer lines;
    bool is_terminal = false;
  };
  FileDescriptor open(Stream& stream);
  void take_available(Stream& stream);
  void take(Stream& stream, std::string_view bytes);
  void take_line(const Stream& stream, std::string_view line, LineEnd end);
  void write_log(std::string_view line);

  const int rank_;
  const std::string prefix_;
  Console& console_;
  std::string log_path_;
  FileDescriptor log_{-1};
  Stream output_{1}, errors_{2};
  std::string last_error_line_;
  bool mentions_used_port_ = false, has_connected_ = false;
};

}  // namespace emblem
