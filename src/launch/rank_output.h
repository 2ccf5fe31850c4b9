// launch/rank_output.h - what a rank prints: to the console, line by line, and to its log file.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/file_descriptor.h"
#include "launch/console.h"
#include "launch/line_buffer.h"

namespace emblem {

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
  // After the end of the rank: takes what is left.
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
