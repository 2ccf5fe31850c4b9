// Criteo TSV and CSV.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "core/text/text.h"
#include "core/text/utf8.h"
#include "data/format/decoder.h"
#include "data/format/encoder.h"
#include "data/format/rows/kept_columns.h"
#include "data/format/text/number_text.h"
#include "data/format/text/time_text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// "2026-11-16 12:30:00.123456789", "-9223372036854775808", "-1.17549435e-38"; a separator.
constexpr size_t kLongestNumber = 32;

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
  template <class Integer>
  void put_integer(Integer value) {
    at_ = std::to_chars(at_, at_ + kLongestNumber, value).ptr;
  }
  // Whole numbers without a point; others with the fewest digits that read back the same.
  void put_number(float value) {
    int64_t integer = 0;
    if (to_integer(static_cast<double>(value), integer)) {
      put_integer(integer);
    } else {
      at_ = std::to_chars(at_, at_ + kLongestNumber, value).ptr;
    }
  }
  // Writes at least 8 digits, as Criteo writes them.
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
        if (keys.is_marked_missing(static_cast<size_t>(row))) continue;
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
                     "' holds several or weighted values per row, but Criteo TSV holds "
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

// Rows with a header; values in quotes where they must be. Bags are values with a separator
// between them, "key:weight" where weighted, and sequences are elements with a delimiter between
// them, as the features of a pipeline read them.
class CsvEncoder final : public RowEncoder {
 public:
  CsvEncoder(const std::vector<ColumnSpec>& schema, const WriterOptions& options)
      : RowEncoder(schema.size()),
        schema_(schema),
        delimiter_(options.delimiter),
        separator_(1, options.separator),
        sequence_delim_(options.sequence_delim),
        is_sequence_(schema.size(), false) {
    constexpr const char* kOfValues = "\"\n\r.-+:0123456789";
    EMBLEM_REQUIRE(!schema.empty(), "there are no columns to write");
    EMBLEM_REQUIRE(std::strchr(kOfValues, delimiter_) == nullptr && delimiter_ != options.separator,
                   "a CSV file cannot be separated by '", delimiter_,
                   "'; expected a comma or a tab, say");
    EMBLEM_REQUIRE(
        !sequence_delim_.empty() && sequence_delim_.find_first_of(kOfValues) == std::string::npos,
        "the elements of sequences cannot be separated by \"", printable(sequence_delim_),
        "\"; expected a semicolon, say");
    EMBLEM_REQUIRE(separator_.find_first_of(kOfValues) == std::string::npos &&
                       sequence_delim_.find(separator_) == std::string::npos,
                   "the values of lists cannot be separated by ", in_quotes(separator_),
                   "; expected another character than those of numbers and of --sequence-delim");
    for (const std::string& name : options.sequences) mark_sequence(name);
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
    std::string lists;
    for (int64_t row = 0; row < block.rows; ++row) {
      for (size_t i = 0; i < schema_.size(); ++i) {
        text.reserve(2 * kLongestNumber);
        if (i > 0) text.put(delimiter_);
        const Column& column = block.columns[i];
        const Place place{first_row + row, i};
        if (column.offsets.empty() && column.sequence_offsets.empty()) {
          put_value(text, column, row, place);
        } else {
          lists.clear();
          write_lists(column, row, place, lists);
          put_field(text, lists, place);
        }
        text.commit();
      }
      text.reserve(1);
      text.put('\n');
      text.commit();
    }
  }

 private:
  // What messages are about.
  struct Place {
    int64_t row;  // from 0
    size_t column;
  };

  std::string at(const Place& place) const {
    return cat("row ", place.row + 1, ", column ", schema_[place.column].name, ": ");
  }

  void mark_sequence(const std::string& name) {
    const auto found = std::find_if(schema_.begin(), schema_.end(),
                                    [&](const ColumnSpec& column) { return column.name == name; });
    EMBLEM_REQUIRE(found != schema_.end(), "sequences: the input has no column ", in_quotes(name));
    EMBLEM_REQUIRE(found->lists > 0, "sequences: column ", in_quotes(name),
                   " holds one value per row; expected a column of lists");
    is_sequence_[static_cast<size_t>(found - schema_.begin())] = true;
  }

  // One value per row.
  void put_value(TextOut& text, const Column& column, int64_t row, const Place& place) const {
    if (column.type == ColumnType::kText) {
      put_field(text, text_at(column, static_cast<size_t>(row)), place);
    } else if (column.type == ColumnType::kInt64) {
      std::string written;
      if (!column.is_marked_missing(static_cast<size_t>(row)))
        write_integer_of(place, column.ints[row], written);
      text.put(written);
    } else if (!std::isnan(column.floats[row])) {
      require_finite(column.floats[row], place.row, schema_[place.column].name);
      text.put_number(column.floats[row]);
    }
    if (column.weights.empty()) return;
    text.put(':');
    text.put_number(column.weights[row]);
  }

  // Leaves room for a weight after the field.
  void put_field(TextOut& text, std::string_view value, const Place& place) const {
    EMBLEM_REQUIRE(
        schema_[place.column].stored != "binary" || find_invalid_utf8(value) == value.npos,
        at(place), "the bytes are not UTF-8 text, which CSV holds; write parquet, orc or arrow");
    EMBLEM_REQUIRE(value.find_first_of("\n\r") == std::string_view::npos, at(place),
                   "the text holds a line break, which CSV cannot hold here; "
                   "replace it in the input");
    const std::string field = csv_field(value, delimiter_);
    text.commit();
    text.reserve(field.size() + kLongestNumber);
    text.put(field);
  }

  // The bag, the sequence of values or the sequence of bags that a row holds.
  void write_lists(const Column& column, int64_t row, const Place& place, std::string& out) const {
    if (column.sequence_offsets.empty() && !is_sequence_[place.column])
      return write_bag(column, column.offsets[row], column.offsets[row + 1], {}, place, out);
    const bool has_bags = !column.sequence_offsets.empty() && !column.offsets.empty();
    const HostVector<int32_t>& elements =
        column.sequence_offsets.empty() ? column.offsets : column.sequence_offsets;
    for (int32_t i = elements[row]; i < elements[row + 1]; ++i) {
      if (i > elements[row]) out += sequence_delim_;
      write_bag(column, has_bags ? column.offsets[i] : i, has_bags ? column.offsets[i + 1] : i + 1,
                sequence_delim_, place, out);
    }
    // An empty field would be an empty sequence.
    if (out.empty() && elements[row] < elements[row + 1]) out += separator_;
  }

  // Values [begin, end). `element_delim` follows elements of a sequence; "": the bag is no element.
  void write_bag(const Column& column, int64_t begin, int64_t end, std::string_view element_delim,
                 const Place& place, std::string& out) const {
    for (int64_t i = begin; i < end; ++i) {
      if (i > begin) out += separator_;
      const size_t start = out.size();
      write_value(column, i, place, out);
      require_whole(std::string_view(out).substr(start), element_delim, place);
      if (column.weights.empty()) continue;
      out += ':';
      write_number(column.weights[i], out);
    }
  }

  void require_whole(std::string_view value, std::string_view element_delim,
                     const Place& place) const {
    const auto holds = [&](std::string_view separator) {
      return !separator.empty() && value.find(separator) != std::string_view::npos;
    };
    EMBLEM_REQUIRE(!holds(separator_) && !holds(element_delim), at(place), "a value of a list, ",
                   in_quotes(value), ", holds ",
                   in_quotes(holds(separator_) ? std::string_view(separator_) : element_delim),
                   " and would be read from CSV as several; choose another separator, or write "
                   "parquet, orc or arrow");
  }

  // Dates and times as text, so that they are not taken for those of another unit.
  void write_integer_of(const Place& place, int64_t value, std::string& out) const {
    const ColumnSpec& column = schema_[place.column];
    if (column.values.is_temporal()) return write_time(value, column.values, out);
    if (column.stored == "uint64") return write_integer(static_cast<uint64_t>(value), out);
    write_integer(value, out);
  }

  // A missing number keeps its place in a vector.
  void write_value(const Column& column, int64_t i, const Place& place, std::string& out) const {
    const std::string& stored = schema_[place.column].stored;
    if (column.type == ColumnType::kText) {
      const std::string_view value = text_at(column, static_cast<size_t>(i));
      out += value.empty() && stored == "double" ? "NaN" : value;
    } else if (column.type == ColumnType::kInt64) {
      if (!column.is_marked_missing(static_cast<size_t>(i)))
        write_integer_of(place, column.ints[i], out);
    } else if (std::isnan(column.floats[i])) {
      out += "NaN";
    } else {
      require_finite(column.floats[i], place.row, schema_[place.column].name);
      write_number(column.floats[i], out);
    }
  }

  std::vector<ColumnSpec> schema_;
  char delimiter_;
  std::string separator_, sequence_delim_;
  std::vector<bool> is_sequence_;  // by column: as WriterOptions::sequences says
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
