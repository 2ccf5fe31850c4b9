// bench/result/text_table.h - tables and paragraphs that fit a terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace emblem {

inline constexpr size_t kTerminalColumns = 100;

// Rows of cells as text with aligned columns; the first row has the column names. Columns after the
// first are right-aligned. A row of one cell is a heading over all columns.
std::string align_columns(const std::vector<std::vector<std::string>>& rows);

// The same with the first columns that fit a terminal.
std::string fit_columns(std::vector<std::vector<std::string>> rows);

// Breaks `text` at spaces into lines that fit a terminal. The first line begins with `head`, padded
// to `indent` columns; the other lines are indented by as much.
std::string wrap_text(std::string_view head, std::string_view text, size_t indent);

}  // namespace emblem
