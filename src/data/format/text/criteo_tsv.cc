// Criteo's text: label, counts and 32-bit words in hexadecimal, separated by tabs, any of them
// missing.
#include <algorithm>

#include "core/text/text.h"
#include "data/format/text/text_decoder.h"
#include "data/format/text/text_scan.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr const char* kSource = "a CriteoTsvDataset";  // in messages

class CriteoTsvDecoder final : public TextDecoder {
 public:
  CriteoTsvDecoder(const DataSource& source, const std::vector<ColumnRequest>* requests)
      : TextDecoder(source, source.with_header ? Header::kFirstLine : Header::kNone),
        schema_(criteo_schema(source.num_dense, source.num_sparse)),
        numbers_(1 + source.num_dense),
        target_(schema_.size(), -1) {
    const std::vector<int> wanted = find_columns(schema_, requests, kSource);
    for (size_t i = 0; i < wanted.size(); ++i) {
      EMBLEM_REQUIRE(target_[wanted[i]] < 0, "column ", schema_[wanted[i]].name,
                     " is requested twice");
      target_[wanted[i]] = static_cast<int>(i);
      columns_.push_back(schema_[wanted[i]]);
    }
    for (const std::string& name : source.keep)
      kept_fields_.push_back(static_cast<size_t>(find_column(schema_, name, kSource)));
    for (size_t i = 0; i < filters_.size(); ++i) {
      const int field = find_column(schema_, filters_[i], kSource);
      const bool is_number = static_cast<size_t>(field) < numbers_;
      filters_.set_type(i, is_number ? ColumnType::kFloat : ColumnType::kText, kSource);
      filtered_fields_.push_back(static_cast<size_t>(field));
    }
  }

 protected:
  void begin_block(int64_t rows, Block& block) const override {
    block.columns.resize(columns_.size());
    for (size_t i = 0; i < columns_.size(); ++i) {
      Column& column = block.columns[i];
      column.type = columns_[i].type;
      if (column.type == ColumnType::kFloat) {
        column.floats.resize(static_cast<size_t>(rows));
      } else {
        column.ints.resize(static_cast<size_t>(rows));
        column.missing.resize(static_cast<size_t>(rows));
      }
    }
  }

  const char* parse_line(const char* at, const char* end, int64_t row, Block& block,
                         std::string& problem) const override {
    const char* next = scan_line(at, row, block);
    if (next != nullptr) [[likely]]
      return next;
    const std::string_view line = row_at(at, end, next);
    problem = parse_carefully(line, row, block);
    return next;
  }

  void read_kept(std::string_view line, std::vector<std::string>& values) const override {
    pick(line, kept_fields_, values);
  }

  bool read_filtered(std::string_view line, std::vector<std::string>& values) const override {
    return pick(line, filtered_fields_, values);
  }

  void end_block(int64_t rows, Block& block) const override {
    for (Column& column : block.columns) {
      column.offsets.clear();
      column.weights.clear();
      if (column.type == ColumnType::kFloat) {
        column.floats.resize(static_cast<size_t>(rows));
        continue;
      }
      column.ints.resize(static_cast<size_t>(rows));
      column.missing.resize(static_cast<size_t>(rows));
      drop_missing_if_none(column);
    }
  }

 private:
  bool pick(std::string_view line, const std::vector<size_t>& wanted,
            std::vector<std::string>& values) const {
    const std::vector<std::string> fields = split(line, '\t');
    if (fields.size() != schema_.size()) return false;
    for (size_t i = 0; i < values.size(); ++i) values[i] = fields[wanted[i]];
    return true;
  }

  // Lines as they nearly always are, in one forward pass. Null for any other line.
  const char* scan_line(const char* at, int64_t row, Block& block) const {
    const size_t fields = schema_.size();
    for (size_t field = 0; field < fields; ++field) {
      const int target = target_[field];
      if (target < 0) {
        while (*at != '\t' && *at != '\n' && *at != '\r') ++at;
      } else if (field < numbers_) {
        at = scan_small_integer(at, block.columns[target].floats[row]);
        if (at == nullptr) return nullptr;
      } else {
        Column& column = block.columns[target];
        uint32_t word = 0;
        const bool missing = *at == '\t' || *at == '\n' || *at == '\r';
        if (!missing) {
          if (!scan_hex8(at, word)) return nullptr;
          at += 8;
        }
        column.ints[row] = word;
        column.missing[row] = missing;
      }
      if (field + 1 < fields && *at++ != '\t') return nullptr;
    }
    if (*at == '\r') ++at;
    return *at == '\n' ? at + 1 : nullptr;
  }

  // Any line; says what is wrong with it.
  std::string parse_carefully(std::string_view line, int64_t row, Block& block) const {
    const size_t found = 1 + static_cast<size_t>(std::count(line.begin(), line.end(), '\t'));
    if (found != schema_.size()) {
      return cat("found ", found, found == 1 ? " column" : " columns", ", expected ",
                 schema_.size(), " (label, ", numbers_ - 1, " numbers, ", schema_.size() - numbers_,
                 " categories, separated by tabs)");
    }
    for (size_t field = 0; field < schema_.size(); ++field) {
      const size_t tab = std::min(line.find('\t'), line.size());
      const std::string_view text = line.substr(0, tab);
      line.remove_prefix(std::min(tab + 1, line.size()));
      if (target_[field] < 0) continue;
      Column& column = block.columns[target_[field]];
      if (field < numbers_) {
        if (!parse_any_float(text, column.floats[row])) {
          return cat("column ", schema_[field].name, ": ", in_quotes(text),
                     " is not a number (expected a decimal number or an empty field)");
        }
        continue;
      }
      column.ints[row] = 0;
      column.missing[row] = text.empty();
      if (!text.empty() && !parse_hexadecimal(text, column.ints[row])) {
        return cat("column ", schema_[field].name, ": ", in_quotes(text),
                   " is not a category (expected a hexadecimal number or an empty field)");
      }
    }
    return {};
  }

  std::vector<ColumnSpec> schema_;
  size_t numbers_;                       // fields in front of the categories: label and counts
  std::vector<int> target_;              // field -> column of the block, or -1
  std::vector<size_t> kept_fields_;      // by position in DataSource::keep
  std::vector<size_t> filtered_fields_;  // by condition; categories are text
};

}  // namespace

std::unique_ptr<Decoder> make_criteo_tsv_decoder(const DataSource& source,
                                                 const std::vector<ColumnRequest>* requests) {
  return std::make_unique<CriteoTsvDecoder>(source, requests);
}

}  // namespace emblem
