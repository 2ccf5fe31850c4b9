// HugeCTR Raw and SOK split binary: little-endian numbers without headers.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/math/half.h"
#include "data/format/encoder.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little,
              "numbers are written as they are in memory");

// Takes numbers out of a block; throws Error for what the format cannot hold.
class NumberSource {
 public:
  NumberSource(const std::vector<ColumnSpec>& schema, const WriterOptions& options,
               std::string format)
      : roles(column_roles(schema, options, format)),
        schema_(schema),
        missing_(options.missing),
        format_(std::move(format)) {
    EMBLEM_REQUIRE(!roles.dense.empty() && !roles.sparse.empty(), format_,
                   " needs dense and sparse columns; found ", roles.dense.size(), " dense and ",
                   roles.sparse.size(), " sparse ones");
  }

  void require_single_values(const Block& block) const {
    for (size_t i = 0; i < schema_.size(); ++i) {
      EMBLEM_REQUIRE(block.columns[i].offsets.empty() && block.columns[i].weights.empty(),
                     "column '", schema_[i].name,
                     "' holds several or weighted values per row, but ", format_,
                     " holds one; write csv instead");
    }
  }

  double number(const Block& block, int column, int64_t row, int64_t first_row) const {
    const double value = number_at(block.columns[column], row);
    if (!std::isnan(value)) [[likely]]
      return value;
    if (column == roles.label)
      reject(column, first_row + row, "the label is missing", "a label in every row");
    if (missing_ == MissingValues::kReject) reject_missing(column, first_row + row);
    return 0;
  }

  int32_t whole_number(const Block& block, int column, int64_t row, int64_t first_row) const {
    const double value = number(block, column, row, first_row);
    if (value == std::trunc(value) && std::fabs(value) <= std::numeric_limits<int32_t>::max())
        [[likely]] {
      return static_cast<int32_t>(value);
    }
    reject(column, first_row + row, cat(value, " is not a 32-bit whole number"),
           column == roles.label
               ? "whole labels; write csv or tsv instead"
               : "whole counts; write csv or tsv, or split with float32 dense values, instead");
  }

  uint32_t key(const Block& block, int column, int64_t row, int64_t first_row) const {
    const Column& keys = block.columns[column];
    if (keys.is_marked_missing(static_cast<size_t>(row))) {
      if (missing_ == MissingValues::kReject) reject_missing(column, first_row + row);
      return 0;
    }
    const int64_t key = keys.ints[row];
    if (key >= 0 && key <= std::numeric_limits<uint32_t>::max()) [[likely]]
      return static_cast<uint32_t>(key);
    reject(column, first_row + row, cat("the key ", key, " does not fit 32 bits"),
           "keys from 0 to 4294967295; write csv or tsv instead");
  }

  [[noreturn]] void reject(int column, int64_t row, const std::string& found,
                           const std::string& expected) const {
    throw Error(ErrorCode::kInvalidArgument,
                cat("row ", row + 1, ", column ", schema_[column].name, ": ", found, ", but ",
                    format_, " needs ", expected));
  }

  const ColumnRoles roles;

 private:
  [[noreturn]] void reject_missing(int column, int64_t row) const {
    reject(column, row, "the value is missing",
           "one in every row; let missing values be zeros (--missing zero), or write csv or tsv "
           "instead");
  }

  std::vector<ColumnSpec> schema_;
  MissingValues missing_;
  std::string format_;
};

template <class T>
T* start_stream(std::string& stream, int64_t rows, size_t columns) {
  stream.resize(static_cast<size_t>(rows) * columns * sizeof(T));
  return reinterpret_cast<T*>(stream.data());
}

class RawEncoder final : public RowEncoder {
 public:
  RawEncoder(const std::vector<ColumnSpec>& schema, const WriterOptions& options)
      : RowEncoder(schema.size()), source_(schema, options, "HugeCTR Raw") {}

  std::vector<std::string> file_names(int part) const override {
    std::string number = std::to_string(100000 + part % 100000).substr(1);
    return {"part-" + number + ".bin"};
  }

  void encode(const Block& block, int64_t first_row, EncodedRows& out) const override {
    source_.require_single_values(block);
    const ColumnRoles& roles = source_.roles;
    out.streams.resize(1);
    int32_t* at = start_stream<int32_t>(out.streams[0], block.rows,
                                        1 + roles.dense.size() + roles.sparse.size());
    for (int64_t row = 0; row < block.rows; ++row) {
      *at++ = source_.whole_number(block, roles.label, row, first_row);
      for (const int column : roles.dense)
        *at++ = source_.whole_number(block, column, row, first_row);
      for (const int column : roles.sparse) {
        *at++ = static_cast<int32_t>(source_.key(block, column, row, first_row));
      }
    }
  }

 private:
  NumberSource source_;
};

class SplitEncoder : public RowEncoder {
 public:
  SplitEncoder(const std::vector<ColumnSpec>& schema, const WriterOptions& options)
      : RowEncoder(schema.size()),
        source_(schema, options, "split binary"),
        cardinalities_(options.cardinalities) {
    EMBLEM_REQUIRE(cardinalities_.empty() || cardinalities_.size() == source_.roles.sparse.size(),
                   "there are ", cardinalities_.size(), " cardinalities for ",
                   source_.roles.sparse.size(), " sparse columns");
  }

  bool can_be_bundled() const override { return false; }

 protected:
  void write_metadata(const std::string& folder, const std::vector<int64_t>& vocabulary,
                      const nlohmann::ordered_json& types) const {
    nlohmann::ordered_json metadata = {{"vocab_sizes", vocabulary}};
    metadata.update(types);
    FileWriter file((fs::path(folder) / "metadata.json").string());
    file.write(metadata.dump(2) + "\n");
    file.finish();
  }

  std::vector<int64_t> vocabulary(const std::vector<int64_t>& largest_keys) const {
    if (!cardinalities_.empty()) return cardinalities_;
    std::vector<int64_t> sizes(source_.roles.sparse.size(), 0);
    for (size_t i = 0; i < largest_keys.size(); ++i) sizes[i] = largest_keys[i] + 1;
    return sizes;
  }

  // A key outside the promised vocabulary would be read as another table's row.
  void check_and_note(uint32_t key, size_t i, int64_t row, std::vector<int64_t>& largest) const {
    if (!cardinalities_.empty() && key >= cardinalities_[i]) {
      source_.reject(source_.roles.sparse[i], row, cat("the key ", key, " is outside the table"),
                     cat("keys below ", cardinalities_[i]));
    }
    largest[i] = std::max<int64_t>(largest[i], key);
  }

  NumberSource source_;

 private:
  std::vector<int64_t> cardinalities_;
};

// label.bin, dense.bin and category.bin, each row-major.
class SplitRowsEncoder final : public SplitEncoder {
 public:
  SplitRowsEncoder(const std::vector<ColumnSpec>& schema, const WriterOptions& options)
      : SplitEncoder(schema, options), dense_type_(options.split_dense) {}

  std::vector<std::string> file_names(int) const override {
    return {"label.bin", "dense.bin", "category.bin"};
  }

  void encode(const Block& block, int64_t first_row, EncodedRows& out) const override {
    source_.require_single_values(block);
    const ColumnRoles& roles = source_.roles;
    out.streams.resize(3);
    out.largest_keys.assign(roles.sparse.size(), -1);
    int32_t* label = start_stream<int32_t>(out.streams[0], block.rows, 1);
    char* dense = start_stream<char>(out.streams[1], block.rows, 4 * roles.dense.size());
    uint32_t* category = start_stream<uint32_t>(out.streams[2], block.rows, roles.sparse.size());
    for (int64_t row = 0; row < block.rows; ++row) {
      *label++ = source_.whole_number(block, roles.label, row, first_row);
      for (const int column : roles.dense) {
        const uint32_t word = dense_word(block, column, row, first_row);
        std::memcpy(dense, &word, 4);
        dense += 4;
      }
      for (size_t i = 0; i < roles.sparse.size(); ++i) {
        *category = source_.key(block, roles.sparse[i], row, first_row);
        check_and_note(*category++, i, first_row + row, out.largest_keys);
      }
    }
  }

  void complete(const std::string& folder,
                const std::vector<int64_t>& largest_keys) const override {
    write_metadata(folder, vocabulary(largest_keys),
                   {{"label_raw_type", "int32"},
                    {"dense_raw_type", dense_type_ == SplitDense::kInt32 ? "int32" : "float32"},
                    {"category_raw_type", "int32"},
                    {"dense_log", true}});
  }

 private:
  uint32_t dense_word(const Block& block, int column, int64_t row, int64_t first_row) const {
    if (dense_type_ == SplitDense::kInt32) {
      return static_cast<uint32_t>(source_.whole_number(block, column, row, first_row));
    }
    return std::bit_cast<uint32_t>(
        static_cast<float>(source_.number(block, column, row, first_row)));
  }

  SplitDense dense_type_;
};

// One file per column. Categories are written as 32-bit numbers and narrowed when the largest key
// is known.
class SplitColumnsEncoder final : public SplitEncoder {
 public:
  using SplitEncoder::SplitEncoder;

  std::vector<std::string> file_names(int) const override {
    std::vector<std::string> names = {"label.bin", "dense.bin"};
    for (size_t i = 0; i < source_.roles.sparse.size(); ++i) names.push_back(category_name(i));
    return names;
  }

  void encode(const Block& block, int64_t first_row, EncodedRows& out) const override {
    source_.require_single_values(block);
    const ColumnRoles& roles = source_.roles;
    out.streams.resize(2 + roles.sparse.size());
    out.largest_keys.assign(roles.sparse.size(), -1);
    uint8_t* label = start_stream<uint8_t>(out.streams[0], block.rows, 1);
    uint16_t* dense = start_stream<uint16_t>(out.streams[1], block.rows, roles.dense.size());
    for (int64_t row = 0; row < block.rows; ++row) {
      *label++ = boolean_label(block, row, first_row);
      for (const int column : roles.dense) *dense++ = logarithm(block, column, row, first_row);
    }
    for (size_t i = 0; i < roles.sparse.size(); ++i) {
      uint32_t* keys = start_stream<uint32_t>(out.streams[2 + i], block.rows, 1);
      for (int64_t row = 0; row < block.rows; ++row) {
        keys[row] = source_.key(block, roles.sparse[i], row, first_row);
        check_and_note(keys[row], i, first_row + row, out.largest_keys);
      }
    }
  }

  void complete(const std::string& folder,
                const std::vector<int64_t>& largest_keys) const override {
    const std::vector<int64_t> sizes = vocabulary(largest_keys);
    std::vector<std::string> types;
    for (size_t i = 0; i < sizes.size(); ++i) {
      types.push_back(narrow((fs::path(folder) / category_name(i)).string(), sizes[i]));
    }
    write_metadata(folder, sizes,
                   {{"label_raw_type", "bool"},
                    {"dense_raw_type", "float16"},
                    {"category_raw_type", types},
                    {"dense_log", false}});
  }

 private:
  static std::string category_name(size_t i) { return "category_" + std::to_string(i) + ".bin"; }

  uint8_t boolean_label(const Block& block, int64_t row, int64_t first_row) const {
    const double label = source_.number(block, source_.roles.label, row, first_row);
    if (label != 0 && label != 1) {
      source_.reject(source_.roles.label, first_row + row, cat("the label is ", label),
                     "0 or 1 in this layout");
    }
    return label != 0;
  }

  // log(x + 3): this layout's readers apply no transform of their own.
  uint16_t logarithm(const Block& block, int column, int64_t row, int64_t first_row) const {
    const double value = source_.number(block, column, row, first_row);
    if (!(value > -3)) {
      source_.reject(column, first_row + row, cat(value, " has no log(x + 3)"),
                     "values above -3 in this layout");
    }
    return F16::from(static_cast<float>(std::log(value + 3))).bits;
  }

  // SOK's rule: the narrowest type whose largest number is above the vocabulary.
  static std::string narrow(const std::string& path, int64_t vocabulary) {
    if (vocabulary < std::numeric_limits<int8_t>::max()) return rewrite<int8_t>(path, "int8");
    if (vocabulary < std::numeric_limits<int16_t>::max()) return rewrite<int16_t>(path, "int16");
    return "int32";
  }

  template <class T>
  static std::string rewrite(const std::string& path, const char* type) {
    const std::string narrowed = path + ".narrow";
    {
      const MappedFile file(path);
      FileWriter out(narrowed);
      const auto* keys = reinterpret_cast<const uint32_t*>(file.bytes().data());
      const size_t rows = file.bytes().size() / 4;
      std::vector<T> piece(1 << 14);
      for (size_t begin = 0; begin < rows; begin += piece.size()) {
        const size_t count = std::min(piece.size(), rows - begin);
        for (size_t i = 0; i < count; ++i) piece[i] = static_cast<T>(keys[begin + i]);
        out.write(piece.data(), count * sizeof(T));
      }
      out.finish();
    }
    fs::rename(narrowed, path);
    return type;
  }
};

}  // namespace

std::unique_ptr<RowEncoder> make_raw_encoder(const std::vector<ColumnSpec>& schema,
                                             const WriterOptions& options) {
  return std::make_unique<RawEncoder>(schema, options);
}

std::unique_ptr<RowEncoder> make_split_encoder(const std::vector<ColumnSpec>& schema,
                                               const WriterOptions& options) {
  if (options.split_layout == SplitLayout::kColumns)
    return std::make_unique<SplitColumnsEncoder>(schema, options);
  return std::make_unique<SplitRowsEncoder>(schema, options);
}

}  // namespace emblem
