// launch/line_buffer.h - bytes that arrive in pieces, as whole lines.
#pragma once

#include <string>
#include <string_view>

namespace emblem {

enum class LineEnd { kNewline, kNone };

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

}  // namespace emblem
