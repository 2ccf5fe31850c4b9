// libfm text: "label index:value index:value ...".
#include <algorithm>
#include <cstring>

#include "core/text/text.h"
#include "data/format/text/csv_types.h"
#include "data/format/text/text_decoder.h"
#include "data/format/text/text_scan.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr int kLabel = 0;   // source of a column: the label,
constexpr int kWhole = -1;  // the whole line as a bag, or the i-th feature of the line (from 1)

bool is_space(char c) { return c == ' ' || c == '\t'; }

std::string_view take_token(std::string_view& line) {
  while (!line.empty() && is_space(line.front())) line.remove_prefix(1);
  size_t end = 0;
  while (end < line.size() && !is_space(line[end])) ++end;
  const std::string_view token = line.substr(0, end);
  line.remove_prefix(end);
  return token;
}

bool parse_entry(std::string_view token, int64_t& index, float& value) {
  const size_t colon = token.find(':');
  return colon != std::string_view::npos && colon + 1 < token.size() &&
         parse_integer(token.substr(0, colon), index) &&
         parse_float(token.substr(colon + 1), value) && !std::isnan(value);
}

class LibfmDecoder final : public TextDecoder {
 public:
  LibfmDecoder(const DataSource& source, const std::vector<ColumnRequest>* requests)
      : TextDecoder(source, Header::kNone) {
    if (requests == nullptr) {
      choose_columns();
    } else {
      for (const ColumnRequest& request : *requests) add_column(request.name);
    }
    for (const std::string& name : source.keep) kept_sources_.push_back(source_of_column(name));
    for (size_t i = 0; i < filters_.size(); ++i) add_filtered(i);
    for (size_t i = 0; i < sources_.size(); ++i) {
      if (sources_[i] > 0) {
        at_place_.resize(std::max<size_t>(at_place_.size(), static_cast<size_t>(sources_[i])), -1);
        at_place_[sources_[i] - 1] = static_cast<int>(i);
      } else {
        (sources_[i] == kLabel ? label_ : whole_) = static_cast<int>(i);
      }
    }
  }

 protected:
  void begin_block(int64_t rows, Block& block) const override {
    block.columns.resize(columns_.size());
    for (size_t i = 0; i < columns_.size(); ++i) {
      Column& column = block.columns[i];
      column.type = columns_[i].type;
      const size_t fixed = sources_[i] == kWhole ? 0 : static_cast<size_t>(rows);
      column.offsets.clear();
      if (sources_[i] == kWhole) column.offsets.push_back(0);
      column.floats.resize(sources_[i] == kLabel ? fixed : 0);
      column.ints.resize(sources_[i] == kLabel ? 0 : fixed);
      column.missing.resize(column.ints.size());
      column.weights.resize(column.ints.size());
    }
  }

  const char* parse_line(const char* at, const char* end, int64_t row, Block& block,
                         std::string& problem) const override {
    const char* next = nullptr;
    problem = parse(row_at(at, end, next), row, block);
    if (whole_ >= 0 && !problem.empty()) {
      Column& bag = block.columns[whole_];
      bag.offsets.resize(static_cast<size_t>(row + 1));
      bag.ints.resize(static_cast<size_t>(bag.offsets.back()));
      bag.weights.resize(bag.ints.size());
    }
    return next;
  }

  // A value by place is kept as it is written: "index:value".
  void read_kept(std::string_view line, std::vector<std::string>& values) const override {
    const std::string_view label = take_token(line);
    const std::string_view whole = trim(line);
    std::vector<std::string_view> entries;
    for (std::string_view entry = take_token(line); !entry.empty(); entry = take_token(line))
      entries.push_back(entry);
    for (size_t i = 0; i < values.size(); ++i) {
      const int source = kept_sources_[i];
      if (source == kLabel) values[i] = label;
      if (source == kWhole) values[i] = whole;
      if (source > 0 && static_cast<size_t>(source) <= entries.size())
        values[i] = entries[static_cast<size_t>(source) - 1];
    }
  }

  // The index of a value stands for it in filters by place.
  bool read_filtered(std::string_view line, std::vector<std::string>& values) const override {
    const std::string_view label = take_token(line);
    for (size_t i = 0; i < values.size(); ++i)
      if (filtered_sources_[i] == kLabel) values[i] = label == "-1" ? "0" : label;
    int place = 0;
    for (std::string_view entry = take_token(line); !entry.empty(); entry = take_token(line)) {
      ++place;
      for (size_t i = 0; i < values.size(); ++i)
        if (filtered_sources_[i] == place) values[i] = entry.substr(0, entry.find(':'));
    }
    return true;
  }

  void end_block(int64_t rows, Block& block) const override {
    for (size_t i = 0; i < columns_.size(); ++i) {
      Column& column = block.columns[i];
      if (sources_[i] == kLabel) {
        column.floats.resize(static_cast<size_t>(rows));
        continue;
      }
      if (sources_[i] != kWhole) {
        column.ints.resize(static_cast<size_t>(rows));
        column.missing.resize(static_cast<size_t>(rows));
        column.weights.resize(static_cast<size_t>(rows));
      }
      const auto is_one = [](float weight) { return weight == 1.0f; };
      if (std::all_of(column.weights.begin(), column.weights.end(), is_one)) column.weights.clear();
      if (std::find(column.missing.begin(), column.missing.end(), 1) == column.missing.end()) {
        column.missing.clear();
      }
      if (sources_[i] == kWhole) drop_plain_offsets(column);
    }
  }

 private:
  // kLabel, kWhole or a place.
  static int source_of_column(const std::string& name) {
    int64_t place = 0;
    if (name == "label") return kLabel;
    if (name == "features") return kWhole;
    if (name.size() > 1 && name[0] == 'f' && parse_integer(name.substr(1), place) && place > 0 &&
        place < 100000)
      return static_cast<int>(place);
    throw Error(ErrorCode::kInvalidArgument,
                cat("a LibfmDataset has no column ", in_quotes(name),
                    "; it has label, features (the whole line) and f1, f2, ... (by place)"));
  }

  void add_filtered(size_t i) {
    const int source = source_of_column(filters_[i].column());
    EMBLEM_REQUIRE(source != kWhole, "the filter ", in_quotes(filters_[i].text()),
                   ": column \"features\" of a LibfmDataset is a list; expected a column with one "
                   "value per row");
    filters_.set_type(i, source == kLabel ? ColumnType::kFloat : ColumnType::kInt64,
                      "a LibfmDataset");
    filtered_sources_.push_back(source);
  }

  void add_column(const std::string& name) {
    sources_.push_back(source_of_column(name));
    const bool is_bag = name == "features";
    columns_.push_back(
        {name, name == "label" ? ColumnType::kFloat : ColumnType::kInt64, is_bag ? 1 : 0, is_bag});
  }

  // Chooses columns by place when the lines at the start are all of one length.
  void choose_columns() {
    add_column("label");
    int64_t length = -1;
    for (const std::string& text : first_lines(0, 1000)) {
      std::string_view line = text;
      int64_t entries = -1;
      while (!take_token(line).empty()) ++entries;
      if (length < 0) length = entries;
      if (length != entries) length = 0;
      if (length == 0) break;
    }
    if (length <= 0) {
      add_column("features");
      return;
    }
    for (int64_t i = 1; i <= length; ++i) add_column(cat("f", i));
    fixed_length_ = length;
  }

  std::string parse(std::string_view line, int64_t row, Block& block) const {
    const std::string_view label = take_token(line);
    if (label_ >= 0) {
      float& value = block.columns[label_].floats[row];
      if (!parse_float(label, value)) {
        return cat("column label: ", in_quotes(label), " is not a number (expected 1, -1 or 0)");
      }
      if (value == -1.0f) value = 0.0f;
    }
    size_t place = 0;
    for (std::string_view token = take_token(line); !token.empty(); token = take_token(line)) {
      const int target = place < at_place_.size() ? at_place_[place] : -1;
      ++place;
      if (target < 0 && whole_ < 0) continue;
      int64_t index = 0;
      float value = 0;
      if (!parse_entry(token, index, value)) {
        return cat("column f", place, ": ", in_quotes(token),
                   " is not a feature (expected index:value)");
      }
      if (target >= 0) {
        block.columns[target].ints[row] = index;
        block.columns[target].weights[row] = value;
        block.columns[target].missing[row] = 0;
      }
      if (whole_ >= 0) {
        block.columns[whole_].ints.push_back(index);
        block.columns[whole_].weights.push_back(value);
      }
    }
    if (fixed_length_ > 0 && static_cast<int64_t>(place) != fixed_length_) {
      return cat("found ", place, " features, expected ", fixed_length_, " as on the first line");
    }
    if (whole_ >= 0) {
      Column& bag = block.columns[whole_];
      bag.offsets.push_back(static_cast<int32_t>(bag.ints.size()));
    }
    mark_missing(place, row, block);
    return {};
  }

  void mark_missing(size_t from, int64_t row, Block& block) const {
    for (size_t place = from; place < at_place_.size(); ++place) {
      if (at_place_[place] < 0) continue;
      Column& column = block.columns[at_place_[place]];
      column.ints[row] = 0;
      column.weights[row] = 1;
      column.missing[row] = 1;
    }
  }

  std::vector<int> sources_;   // by column: kLabel, kWhole or a place
  std::vector<int> at_place_;  // place - 1 -> column, or -1
  int label_ = -1;             // columns, or -1
  int whole_ = -1;
  std::vector<int> kept_sources_;      // by position in DataSource::keep
  std::vector<int> filtered_sources_;  // by condition
  int64_t fixed_length_ = 0;           // when not 0, lines of another length are bad
};

}  // namespace

std::unique_ptr<Decoder> make_libfm_decoder(const DataSource& source,
                                            const std::vector<ColumnRequest>* requests) {
  return std::make_unique<LibfmDecoder>(source, requests);
}

}  // namespace emblem
