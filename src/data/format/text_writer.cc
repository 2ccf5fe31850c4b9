// Criteo TSV and CSV.
#include <charconv>
#include <cmath>
#include <cstring>

#include "core/text.h"
#include "data/format/encoder.h"
#include "data/format/kept_columns.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr size_t kLongestNumber = 24;  // "-9223372036854775808", "-1.17549435e-38", a separator

// Text that grows by whole rows, so that numbers are written without checks.
class TextOut {
 public:
  explicit TextOut(std::string& text) : text_(text) { text_.clear(); }
  ~TextOut() { text_.resize(used_); }

  // Room for `bytes` more.
  void reserve(size_t bytes) {
    if (text_.size() < used_ + bytes) text_.resize(std::max(text_.size() * 2, used_ + bytes));
    at_ = text_.data() + used_;
  }
  void commit() { used_ = static_cast<size_t>(at_ - text_.data()); }

  void put(char c) { *at_++ = c; }
  void put(std::string_view text) {
    at_ = static_cast<char*>(std::memcpy(at_, text.data(), text.size())) + text.size();
  }
  void put_integer(int64_t value) { at_ = std::to_chars(at_, at_ + kLongestNumber, value).ptr; }
  // Whole numbers without a point; others with the fewest digits that read back the same.
  void put_number(float value) {
    if (value == std::trunc(value) && std::fabs(value) < 1e15f) {
      put_integer(static_cast<int64_t>(value));
    } else {
      at_ = std::to_chars(at_, at_ + kLongestNumber, value).ptr;
    }
  }
  // At least 8 digits, as Criteo writes them.
  void put_hexadecimal(uint64_t value) {
    constexpr char kDigits[] = "0123456789abcdef";
    const int digits = value >> 32 == 0 ? 8 : 16;
    for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) put(kDigits[(value >> shift) & 15]);
  }

 private:
  std::string& text_;
  size_t used_ = 0;
  char* at_ = nullptr;
};

void require_finite(float value, int64_t row, const std::string& column) {
  EMBLEM_REQUIRE(!std::isinf(value), "row ", row + 1, ", column ", column,
                 ": an infinite value cannot be written; expected a finite number");
}

class TsvEncoder final : public RowEncoder {
 public:
  TsvEncoder(const std::vector<ColumnSpec>& schema, const WriterOptions& options)
      : RowEncoder(schema.size()),
        schema_(schema),
        roles_(column_roles(schema, options, "Criteo TSV")) {}

  std::vector<std::string> file_names(int part) const override { return {part_name(part, ".tsv")}; }

  void encode(const Block& block, int64_t first_row, EncodedRows& out) const override {
    require_single_values(block);
    out.streams.resize(1);
    TextOut text(out.streams[0]);
    for (int64_t row = 0; row < block.rows; ++row) {
      text.reserve((1 + roles_.dense.size() + roles_.sparse.size()) * kLongestNumber);
      put_number(text, block, roles_.label, row, first_row);
      for (const int column : roles_.dense) {
        text.put('\t');
        put_number(text, block, column, row, first_row);
      }
      for (const int column : roles_.sparse) {
        text.put('\t');
        const Column& keys = block.columns[column];
        if (!keys.missing.empty() && keys.missing[row]) continue;
        text.put_hexadecimal(static_cast<uint64_t>(keys.ints[row]));
      }
      text.put('\n');
      text.commit();
    }
  }

 private:
  void require_single_values(const Block& block) const {
    for (size_t i = 0; i < schema_.size(); ++i) {
      EMBLEM_REQUIRE(block.columns[i].offsets.empty() && block.columns[i].weights.empty(),
                     "column '", schema_[i].name,
                     "' holds several or weighted values a row, but Criteo TSV holds "
                     "one; write csv instead");
    }
  }

  void put_number(TextOut& text, const Block& block, int index, int64_t row,
                  int64_t first_row) const {
    const Column& column = block.columns[index];
    if (column.type == ColumnType::kInt64) {
      if (column.missing.empty() || !column.missing[row]) text.put_integer(column.ints[row]);
      return;
    }
    const float value = column.floats[row];
    if (std::isnan(value)) return;
    require_finite(value, first_row + row, schema_[index].name);
    text.put_number(value);
  }

  std::vector<ColumnSpec> schema_;
  ColumnRoles roles_;
};

// With a header; values in quotes where they must be; bags as values separated by \x1d,
// "key:weight" where weighted, as the features of a pipeline read them by default.
class CsvEncoder final : public RowEncoder {
 public:
  CsvEncoder(const std::vector<ColumnSpec>& schema, const WriterOptions& options)
      : RowEncoder(schema.size()), schema_(schema), delimiter_(options.delimiter) {
    EMBLEM_REQUIRE(!schema.empty(), "there are no columns to write");
    EMBLEM_REQUIRE(std::strchr("\"\n\r\x1d.-+:0123456789", delimiter_) == nullptr,
                   "a CSV file cannot be separated by '", delimiter_,
                   "'; expected a comma or a tab, say");
  }

  std::vector<std::string> file_names(int part) const override { return {part_name(part, ".csv")}; }

  std::string header() const override {
    std::string line;
    for (const ColumnSpec& column : schema_) {
      if (!line.empty()) line += delimiter_;
      line += csv_field(column.name, delimiter_);
    }
    return line + '\n';
  }

  void encode(const Block& block, int64_t first_row, EncodedRows& out) const override {
    out.streams.resize(1);
    TextOut text(out.streams[0]);
    for (int64_t row = 0; row < block.rows; ++row) {
      for (size_t i = 0; i < schema_.size(); ++i) {
        text.reserve(2);
        if (i > 0) text.put(delimiter_);
        text.commit();
        put_values(text, block.columns[i], row, first_row + row, schema_[i].name);
      }
      text.reserve(1);
      text.put('\n');
      text.commit();
    }
  }

 private:
  void put_values(TextOut& text, const Column& column, int64_t row, int64_t row_in_file,
                  const std::string& name) const {
    const bool bag = !column.offsets.empty();
    const int64_t begin = bag ? column.offsets[row] : row;
    const int64_t end = bag ? column.offsets[row + 1] : row + 1;
    for (int64_t i = begin; i < end; ++i) {
      text.reserve(2 * kLongestNumber);
      if (i > begin) text.put('\x1d');
      if (column.type == ColumnType::kText) {
        text.commit();
        put_text(text, column, i, row_in_file, name);
      } else if (column.type == ColumnType::kInt64) {
        if (column.missing.empty() || !column.missing[i]) text.put_integer(column.ints[i]);
      } else if (!std::isnan(column.floats[i])) {
        require_finite(column.floats[i], row_in_file, name);
        text.put_number(column.floats[i]);
      }
      if (!column.weights.empty()) {
        text.put(':');
        text.put_number(column.weights[i]);
      }
      text.commit();
    }
  }

  // Leaves room for a weight after the text.
  void put_text(TextOut& text, const Column& column, int64_t i, int64_t row_in_file,
                const std::string& name) const {
    const size_t begin = i == 0 ? 0 : column.text_ends[i - 1];
    const std::string_view value(column.text.data() + begin, column.text_ends[i] - begin);
    EMBLEM_REQUIRE(value.find_first_of("\n\r") == std::string_view::npos, "row ", row_in_file + 1,
                   ", column ", name,
                   ": the text holds a line break, which CSV cannot hold here; "
                   "replace it in the input");
    const std::string field = csv_field(value, delimiter_);
    EMBLEM_REQUIRE(column.offsets.empty() || field == value, "row ", row_in_file + 1, ", column ",
                   name, ": one of several values holds a quote or a '", delimiter_,
                   "' and cannot be written; replace it in the input");
    text.reserve(field.size() + kLongestNumber);
    text.put(field);
  }

  std::vector<ColumnSpec> schema_;
  char delimiter_;
};

}  // namespace

std::unique_ptr<RowEncoder> make_tsv_encoder(const std::vector<ColumnSpec>& schema,
                                             const WriterOptions& options) {
  return std::make_unique<TsvEncoder>(schema, options);
}

std::unique_ptr<RowEncoder> make_csv_encoder(const std::vector<ColumnSpec>& schema,
                                             const WriterOptions& options) {
  return std::make_unique<CsvEncoder>(schema, options);
}

}  // namespace emblem
