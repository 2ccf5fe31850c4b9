// data/format/columnar/orc_readers.h - ORC files are read by processes of their own: Arrow's reader
// writes to memory that it does not have where lengths in a file are damaged, and the process that
// reads may die of it. The one that asked then gets an Error.
//
// A reader is the command of OrcReaders, started again, which calls run_orc_reader() at once. It
// has no file open: bytes of the file come from the process that asks, columns go to it.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace emblem {

// Argument by which a program is told to be a reader; main() asks before it does anything else.
inline constexpr char kOrcReaderArgument[] = "read-orc";
bool is_orc_reader(int argc, char** argv);

// Answers requests on stdin until it is closed. Returns the exit status. Without Arrow there are
// none.
int run_orc_reader();

// The readers of this process: as many as threads that read ORC files at the same time. While there
// is none, ORC files are an error. One at a time; files are closed before it.
class OrcReaders {
 public:
  // A program, by path, and its arguments; empty: ORC files stay an error. {"/proc/self/exe",
  // kOrcReaderArgument} is this program.
  explicit OrcReaders(std::vector<std::string> command);
  ~OrcReaders();
  OrcReaders(const OrcReaders&) = delete;
  OrcReaders& operator=(const OrcReaders&) = delete;

 private:
  const std::vector<std::string> command_;
};

}  // namespace emblem
