// core/files/output_file.h - the file that a result is written to, of any kind.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/files/file.h"

namespace emblem {

// A file that is new or replaced appears whole, with finish(), or not at all: it is written under a
// hidden name in the same folder. A symbolic link stays, and what it points to is replaced. Pipes,
// terminals and devices are written to as they are; "-" and /dev/stdout are standard output.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();  // without finish(): removes what was written under the hidden name
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view text) { writer_->write(text); }
  void finish();

 private:
  std::string target_;     // what gets the content
  std::string temporary_;  // empty: `target_` is written to directly
  std::unique_ptr<FileWriter> writer_;
  bool finished_ = false;
};

// Where this process writes the file `path` until it is whole: a hidden name in the same folder.
std::string unfinished_path(const std::string& path);

// The process that began a file of this name; nothing for names of other kinds.
std::optional<int64_t> unfinished_by(std::string_view name);

// Whether `path` names standard output.
bool is_standard_output(std::string_view path);

// Throws as OutputFile would for a file that cannot be written, but changes nothing: for commands
// that run for long before they write.
void check_output(const std::string& path);

// From now on "-" is what standard output is now, and what the program prints there goes to
// standard error instead, so that the two do not mix.
void reserve_standard_output();

// Throws when `output` is one of the files in `inputs`, by whatever name. `option` names the output
// in the message. An empty `output` is none.
void refuse_input_as_output(std::string_view option, const std::string& output,
                            std::span<const std::string> inputs);
// The same for a list as of expand_paths; an empty one has no files. A new file that the list would
// include the next time is refused, too.
void refuse_input_as_output(std::string_view option, const std::string& output,
                            std::string_view inputs);
// Throws when `output` is below `folder`, which is an input as a whole: a checkpoint.
void refuse_output_in(std::string_view option, const std::string& output,
                      const std::string& folder);

}  // namespace emblem
