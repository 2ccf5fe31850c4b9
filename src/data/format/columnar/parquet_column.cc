#ifdef EMBLEM_WITH_ARROW
#include "data/format/columnar/parquet_column.h"

#include <parquet/exception.h>
#include <parquet/metadata.h>
#include <parquet/statistics.h>

#include <algorithm>

#include "data/format/columnar/leaf_values.h"
#include "data/format/columnar/parquet_values.h"

namespace emblem {
namespace {

// Levels that are fetched at least, past the last row that is wanted.
constexpr int64_t kFewestLevels = 64;

[[noreturn]] void end_of_chunk(int64_t rows) {
  throw parquet::ParquetException("the column ends ", rows, " rows early");
}

// One value per row.
class FlatColumn final : public ParquetColumn {
 public:
  FlatColumn(std::unique_ptr<ParquetValues> values, const ParquetLeaf& leaf,
             ParquetBuffers& buffers)
      : values_(std::move(values)), max_level_(leaf.max_level), buffers_(buffers) {}

  void read(int64_t rows, Column& out, std::vector<ValueProblem>& problems) override {
    if (buffers_.definition.size() < static_cast<size_t>(rows))
      buffers_.definition.resize(static_cast<size_t>(rows));
    int16_t* const levels = max_level_ > 0 ? buffers_.definition.data() : nullptr;
    while (rows > 0) {
      int64_t read = values_->fetch_to(rows, levels, max_level_, out);
      if (read < 0) {
        int64_t values = 0;
        read = values_->fetch(rows, levels, nullptr, values);
        if (values == read) {
          values_->append(0, values, out, problems);
        } else {
          values_->append_levels(levels, read, max_level_, 0, out, problems);
        }
      }
      if (read == 0) end_of_chunk(rows);
      rows -= read;
    }
  }

  void skip(int64_t rows) override {
    while (rows > 0) {
      const int64_t skipped = values_->skip(rows);
      if (skipped == 0) end_of_chunk(rows);
      rows -= skipped;
    }
  }

 private:
  std::unique_ptr<ParquetValues> values_;
  int16_t max_level_;
  ParquetBuffers& buffers_;
};

// Lists, and lists of lists. Levels that were fetched past the last row of a read, and their
// values, are carried over to the next.
class ListColumn final : public ParquetColumn {
 public:
  ListColumn(std::unique_ptr<ParquetValues> values, const ParquetLeaf& leaf, int lists,
             ParquetBuffers& buffers)
      : values_(std::move(values)), leaf_(leaf), lists_(lists), buffers_(buffers) {}

  void read(int64_t rows, Column& out, std::vector<ValueProblem>& problems) override {
    int64_t started = 0;
    bool is_complete = take_carried(rows, started, out, problems);
    while (!is_complete) {
      const int64_t wanted = std::max(rows - started, kFewestLevels);
      if (buffers_.definition.size() < static_cast<size_t>(wanted))
        buffers_.definition.resize(static_cast<size_t>(wanted));
      if (buffers_.repetition.size() < static_cast<size_t>(wanted))
        buffers_.repetition.resize(static_cast<size_t>(wanted));
      int64_t values = 0;
      const int64_t levels =
          values_->fetch(wanted, buffers_.definition.data(), buffers_.repetition.data(), values);
      if (levels == 0) break;
      is_complete = add(levels, values, rows, started, out, problems);
    }
    if (started < rows) end_of_chunk(rows - started);
    if (lists_ == 2) out.sequence_offsets.push_back(count_of(out.offsets.size()));
    out.offsets.push_back(count_of(values_in(out)));
  }

  void skip(int64_t rows) override {
    std::vector<ValueProblem> problems;
    const ColumnType type = skipped_.type;
    for (constexpr int64_t kRows = 4096; rows > 0; rows -= std::min(rows, kRows)) {
      skipped_.clear(type);
      problems.clear();
      read(std::min(rows, kRows), skipped_, problems);
    }
  }

  void set_type(ColumnType type) { skipped_.type = type; }

 private:
  static int32_t count_of(size_t values) {
    if (values > INT32_MAX) throw parquet::ParquetException("a piece has 2^31 values or more");
    return static_cast<int32_t>(values);
  }

  // The level with which the row after the last of `rows` starts; `levels` when there is none.
  static int64_t find_end(const int16_t* repetition, int64_t levels, int64_t rows,
                          int64_t& started) {
    for (int64_t i = 0; i < levels; ++i) {
      if (repetition[i] != 0) continue;
      if (started == rows) return i;
      ++started;
    }
    return levels;
  }

  // Where rows and elements begin. Returns the number of value slots.
  int64_t add_offsets(const int16_t* definition, const int16_t* repetition, int64_t levels,
                      Column& out) const {
    int64_t values = static_cast<int64_t>(values_in(out));
    const int64_t before = values;
    for (int64_t i = 0; i < levels; ++i) {
      if (lists_ == 1) {
        if (repetition[i] == 0) out.offsets.push_back(static_cast<int32_t>(values));
      } else {
        if (repetition[i] == 0)
          out.sequence_offsets.push_back(static_cast<int32_t>(out.offsets.size()));
        if (repetition[i] <= 1 && definition[i] >= leaf_.outer_level)
          out.offsets.push_back(static_cast<int32_t>(values));
      }
      values += definition[i] >= leaf_.inner_level;
    }
    count_of(static_cast<size_t>(values));
    return values - before;
  }

  // Removes levels without a value slot; the rest say whether the value is missing.
  int64_t keep_slots(int16_t* definition, int64_t levels) const {
    int64_t kept = 0;
    for (int64_t i = 0; i < levels; ++i) {
      definition[kept] = definition[i];
      kept += definition[i] >= leaf_.inner_level;
    }
    return kept;
  }

  // Adds fetched levels and values: to `out` those of its rows, the others to what is carried.
  bool add(int64_t levels, int64_t values, int64_t rows, int64_t& started, Column& out,
           std::vector<ValueProblem>& problems) {
    int16_t* const definition = buffers_.definition.data();
    int16_t* const repetition = buffers_.repetition.data();
    if (started == 0 && repetition[0] != 0)
      throw parquet::ParquetException("a row starts in the middle of a list");
    const int64_t end = find_end(repetition, levels, rows, started);
    const int64_t slots = add_offsets(definition, repetition, end, out);
    carried_definition_.assign(definition + end, definition + levels);
    carried_repetition_.assign(repetition + end, repetition + levels);
    const int64_t carried_values =
        std::count(carried_definition_.begin(), carried_definition_.end(), leaf_.max_level);
    const int64_t own = values - carried_values;
    append(definition, end, slots, own, 0, out, problems);
    if (end == levels) return false;
    carried_.clear(out.type);
    std::vector<int16_t> rest = carried_definition_;
    const auto count = static_cast<int64_t>(rest.size());
    const int64_t rest_slots = std::count_if(
        rest.begin(), rest.end(), [&](int16_t level) { return level >= leaf_.inner_level; });
    carried_problems_.clear();
    append(rest.data(), count, rest_slots, carried_values, own, carried_, carried_problems_);
    return true;
  }

  void append(int16_t* definition, int64_t levels, int64_t slots, int64_t values, int64_t begin,
              Column& out, std::vector<ValueProblem>& problems) {
    if (values == slots) {
      values_->append(begin, values, out, problems);
    } else {
      const int64_t kept = keep_slots(definition, levels);
      values_->append_levels(definition, kept, leaf_.max_level, begin, out, problems);
    }
  }

  bool take_carried(int64_t rows, int64_t& started, Column& out,
                    std::vector<ValueProblem>& problems) {
    if (carried_definition_.empty()) return false;
    const auto levels = static_cast<int64_t>(carried_definition_.size());
    const int64_t end = find_end(carried_repetition_.data(), levels, rows, started);
    const int64_t slots =
        add_offsets(carried_definition_.data(), carried_repetition_.data(), end, out);
    carry_problems(slots, static_cast<int64_t>(values_in(out)), problems);
    carry_values(static_cast<size_t>(slots), out);
    carried_definition_.erase(carried_definition_.begin(), carried_definition_.begin() + end);
    carried_repetition_.erase(carried_repetition_.begin(), carried_repetition_.begin() + end);
    return end < levels;
  }

  void carry_problems(int64_t count, int64_t before, std::vector<ValueProblem>& problems) {
    std::vector<ValueProblem> rest;
    for (ValueProblem& problem : carried_problems_) {
      const bool is_own = problem.value < count;
      problem.value += is_own ? before : -count;
      (is_own ? problems : rest).push_back(std::move(problem));
    }
    carried_problems_ = std::move(rest);
  }

  // Moves the first `count` carried values to the end of `out`.
  void carry_values(size_t count, Column& out) {
    const auto first = [&](auto& from, auto& to) {
      to.insert(to.end(), from.begin(), from.begin() + static_cast<int64_t>(count));
      from.erase(from.begin(), from.begin() + static_cast<int64_t>(count));
    };
    if (out.type == ColumnType::kFloat) return first(carried_.floats, out.floats);
    if (out.type == ColumnType::kInt64) {
      if (!carried_.missing.empty()) {
        carried_.missing.resize(carried_.ints.size(), 0);
        out.missing.resize(out.ints.size(), 0);
        first(carried_.missing, out.missing);
      }
      return first(carried_.ints, out.ints);
    }
    if (carried_.dictionary != nullptr) {
      out.dictionary = carried_.dictionary;
      return first(carried_.codes, out.codes);
    }
    const size_t bytes = count == 0 ? 0 : carried_.text_ends[count - 1];
    for (size_t i = 0; i < count; ++i)
      out.text_ends.push_back(static_cast<uint32_t>(out.text.size()) + carried_.text_ends[i]);
    out.text.append(carried_.text, 0, bytes);
    carried_.text.erase(0, bytes);
    carried_.text_ends.erase(carried_.text_ends.begin(),
                             carried_.text_ends.begin() + static_cast<int64_t>(count));
    for (uint32_t& end : carried_.text_ends) end -= static_cast<uint32_t>(bytes);
  }

  std::unique_ptr<ParquetValues> values_;
  ParquetLeaf leaf_;
  int lists_;
  ParquetBuffers& buffers_;
  std::vector<int16_t> carried_definition_, carried_repetition_;
  Column carried_, skipped_;
  std::vector<ValueProblem> carried_problems_;
};

// Levels need not be read then.
bool has_no_nulls(const parquet::RowGroupReader& group, int column) {
  const auto statistics = group.metadata()->ColumnChunk(column)->statistics();
  return statistics != nullptr && statistics->HasNullCount() && statistics->null_count() == 0;
}

}  // namespace

std::unique_ptr<ParquetColumn> open_parquet_column(parquet::RowGroupReader& group,
                                                   const ParquetLeaf& leaf, int lists,
                                                   const ColumnRead& how, ParquetBuffers& buffers) {
  std::unique_ptr<ParquetValues> values = open_parquet_values(group, leaf.column, how, buffers);
  if (lists == 0) {
    ParquetLeaf flat = leaf;
    if (has_no_nulls(group, leaf.column)) flat.max_level = 0;
    return std::make_unique<FlatColumn>(std::move(values), flat, buffers);
  }
  auto column = std::make_unique<ListColumn>(std::move(values), leaf, lists, buffers);
  column->set_type(how.type);
  return column;
}

}  // namespace emblem
#endif
