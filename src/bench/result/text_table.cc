#include "bench/result/text_table.h"

#include <algorithm>

#include "core/text.h"

namespace emblem {
namespace {

// Width in terminal columns: UTF-8 continuation bytes have none.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::vector<size_t> widths_of(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    if (row.size() == 1 && rows.front().size() > 1) continue;  // a heading spans all columns
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width_of(row[c]));
  }
  return widths;
}

constexpr std::string_view kGap = "  ";

}  // namespace

std::string align_columns(const std::vector<std::vector<std::string>>& rows) {
  const std::vector<size_t> widths = widths_of(rows);
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string room(widths[c] - std::min(widths[c], width_of(row[c])), ' ');
      if (c > 0) line += kGap;
      line += c == 0 ? row[c] + room : room + row[c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string fit_columns(std::vector<std::vector<std::string>> rows) {
  const std::vector<size_t> widths = widths_of(rows);
  size_t columns = 0;
  for (size_t used = 0; columns < widths.size(); ++columns) {
    used += widths[columns] + (columns > 0 ? kGap.size() : 0);
    if (columns > 1 && used > kTerminalColumns) break;
  }
  for (auto& row : rows) row.resize(std::min(row.size(), columns));
  return align_columns(rows);
}

std::string wrap_text(std::string_view head, std::string_view text, size_t indent) {
  std::string all, line(head);
  line.resize(std::max(indent, line.size()), ' ');
  bool is_first_word = true;
  for (const std::string& word : split(text, ' ')) {
    if (!is_first_word && width_of(line) + 1 + width_of(word) > kTerminalColumns) {
      all += line + "\n";
      line.assign(indent, ' ');
      is_first_word = true;
    }
    line += (is_first_word ? "" : " ") + word;
    is_first_word = false;
  }
  return all + line + "\n";
}

}  // namespace emblem
