#include "data/format/rows/select_rows.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace emblem {
namespace {

// The values [begin, end) of a column, one after the other.
struct Range {
  int32_t begin = 0;
  int32_t end = 0;
};

template <class T>
void copy_ranges(std::span<const Range> ranges, size_t count, const HostVector<T>& from,
                 HostVector<T>& to) {
  if (from.empty()) return to.clear();
  to.resize(count);
  T* at = to.data();
  for (const Range& range : ranges)
    for (int32_t i = range.begin; i < range.end; ++i) *at++ = from[static_cast<size_t>(i)];
}

template <class T>
void copy_rows(std::span<const int32_t> rows, const HostVector<T>& from, HostVector<T>& to) {
  if (from.empty()) return to.clear();
  to.resize(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) to[i] = from[static_cast<size_t>(rows[i])];
}

void copy_text(std::span<const Range> ranges, size_t count, const Column& from, Column& to) {
  to.text.clear();
  to.text_ends.resize(count);
  size_t at = 0;
  for (const Range& range : ranges) {
    for (int32_t i = range.begin; i < range.end; ++i) {
      to.text += text_at(from, static_cast<size_t>(i));
      to.text_ends[at++] = static_cast<uint32_t>(to.text.size());
    }
  }
}

// Ranges of what `offsets` count, of each of `ranges`; their new offsets to `to`.
std::vector<Range> open_bags(std::span<const Range> ranges, const HostVector<int32_t>& offsets,
                             HostVector<int32_t>& to) {
  std::vector<Range> inner;
  to.assign(1, 0);
  for (const Range& range : ranges) {
    for (int32_t i = range.begin; i < range.end; ++i) {
      const auto at = static_cast<size_t>(i);
      inner.push_back({offsets[at], offsets[at + 1]});
      to.push_back(to.back() + offsets[at + 1] - offsets[at]);
    }
  }
  return inner;
}

}  // namespace

void select_rows(std::span<const int32_t> rows, Column& column, Column& scratch) {
  scratch.type = column.type;
  scratch.dictionary = column.dictionary;
  scratch.offsets.clear();
  scratch.sequence_offsets.clear();
  const bool is_plain = column.offsets.empty() && column.sequence_offsets.empty();
  if (is_plain && (column.type != ColumnType::kText || column.dictionary != nullptr)) {
    copy_rows(rows, column.floats, scratch.floats);
    copy_rows(rows, column.ints, scratch.ints);
    copy_rows(rows, column.missing, scratch.missing);
    copy_rows(rows, column.weights, scratch.weights);
    copy_rows(rows, column.codes, scratch.codes);
    scratch.text.clear();
    scratch.text_ends.clear();
    return std::swap(column, scratch);
  }
  std::vector<Range> ranges;
  ranges.reserve(rows.size());
  for (const int32_t row : rows) ranges.push_back({row, row + 1});
  if (!column.sequence_offsets.empty())
    ranges = open_bags(ranges, column.sequence_offsets, scratch.sequence_offsets);
  if (!column.offsets.empty()) ranges = open_bags(ranges, column.offsets, scratch.offsets);
  size_t count = 0;
  for (const Range& range : ranges) count += static_cast<size_t>(range.end - range.begin);
  copy_ranges(ranges, count, column.floats, scratch.floats);
  copy_ranges(ranges, count, column.ints, scratch.ints);
  copy_ranges(ranges, count, column.missing, scratch.missing);
  copy_ranges(ranges, count, column.weights, scratch.weights);
  copy_ranges(ranges, count, column.codes, scratch.codes);
  scratch.text_ends.clear();
  if (column.type == ColumnType::kText && column.dictionary == nullptr)
    copy_text(ranges, count, column, scratch);
  std::swap(column, scratch);
}

void take_rows(std::span<const int32_t> rows, std::vector<RowProblem>& problems, Column& scratch,
               DecodedPiece& piece) {
  const auto by_row = [](const RowProblem& a, const RowProblem& b) { return a.first < b.first; };
  std::stable_sort(problems.begin(), problems.end(), by_row);
  std::vector<int32_t> good;
  good.reserve(rows.size());
  HostVector<int64_t> positions;
  positions.reserve(rows.size());
  for (const int32_t row : rows) {
    const int64_t position = piece.positions[static_cast<size_t>(row)];
    const auto problem =
        std::lower_bound(problems.begin(), problems.end(), RowProblem{row, ""}, by_row);
    if (problem == problems.end() || problem->first != row) {
      good.push_back(row);
      positions.push_back(position);
    } else {
      piece.bad.add(position, problem->second);
      piece.bad_positions.push_back(position);
    }
  }
  for (Column& column : piece.block.columns) select_rows(good, column, scratch);
  piece.positions = std::move(positions);
  piece.block.rows = static_cast<int64_t>(good.size());
}

}  // namespace emblem
