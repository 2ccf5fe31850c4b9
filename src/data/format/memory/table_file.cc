#include "data/format/memory/table_file.h"

#include <algorithm>

#include "data/format/memory/array_column.h"
#include "emblem/error.h"

namespace emblem {
namespace {

class TablePart final : public PartReader {
 public:
  TablePart(std::shared_ptr<const ColumnTable> table, std::vector<ArrayField> fields,
            std::vector<ColumnRead> reads, std::string place)
      : table_(std::move(table)),
        fields_(std::move(fields)),
        reads_(std::move(reads)),
        place_(std::move(place)),
        at_(reads_.size(), 0),
        dictionaries_(reads_.size()) {}

  void read(size_t at, int64_t rows, Column& out, std::vector<ValueProblem>& problems) override {
    if (at_[at] + rows > table_->rows())
      throw Error(ErrorCode::kCorruption,
                  cat(place_, " has ", table_->rows(), " rows, fewer than its metadata says"));
    read_array_column(table_->schema(), table_->array(), fields_[at], reads_[at], at_[at], rows,
                      dictionaries_[at], place_, out, problems);
    at_[at] += rows;
  }

  void skip(int64_t rows) override {
    for (int64_t& at : at_) at += rows;
  }

 private:
  std::shared_ptr<const ColumnTable> table_;
  std::vector<ArrayField> fields_;  // by position in reads_
  std::vector<ColumnRead> reads_;
  std::string place_;
  std::vector<int64_t> at_;
  std::vector<ArrayDictionary> dictionaries_;
};

class TableFile final : public ColumnarFile {
 public:
  TableFile(std::shared_ptr<const ColumnTable> table, std::string name)
      : table_(std::move(table)),
        name_(std::move(name)),
        array_fields_(array_fields(table_->schema())),
        part_rows_(1, table_->rows()) {
    for (const ArrayField& field : array_fields_) fields_.push_back(field.field);
  }

  const std::string& path() const override { return name_; }
  int64_t bytes() const override { return table_->bytes(); }
  const std::vector<ColumnarField>& fields() const override { return fields_; }
  const std::vector<int64_t>& part_rows() const override { return part_rows_; }
  const char* part_name() const override { return "table"; }
  bool reads_forward() const override { return false; }
  bool read_directly() override { return true; }
  void prefetch(int64_t, int64_t) const override {}

  int64_t part_bytes(int, const std::vector<ColumnRead>& columns) const override {
    return bytes() * static_cast<int64_t>(columns.size()) /
           static_cast<int64_t>(std::max<size_t>(fields_.size(), 1));
  }

  std::unique_ptr<PartReader> open(int, const std::vector<ColumnRead>& columns) const override {
    std::vector<ArrayField> fields;
    for (const ColumnRead& read : columns)
      fields.push_back(array_fields_[static_cast<size_t>(read.field)]);
    return open_table_part(table_, std::move(fields), columns, name_);
  }

 private:
  std::shared_ptr<const ColumnTable> table_;
  std::string name_;
  std::vector<ArrayField> array_fields_;
  std::vector<ColumnarField> fields_;
  std::vector<int64_t> part_rows_;
};

}  // namespace

std::unique_ptr<PartReader> open_table_part(std::shared_ptr<const ColumnTable> table,
                                            std::vector<ArrayField> fields,
                                            std::vector<ColumnRead> reads, std::string place) {
  return std::make_unique<TablePart>(std::move(table), std::move(fields), std::move(reads),
                                     std::move(place));
}

std::unique_ptr<ColumnarFile> open_table(std::shared_ptr<const ColumnTable> table,
                                         std::string name) {
  return std::make_unique<TableFile>(std::move(table), std::move(name));
}

std::unique_ptr<ColumnarDecoder> make_table_decoder(
    const DataSource& source, const std::vector<ColumnRequest>* requests,
    const std::vector<std::shared_ptr<const ColumnTable>>& tables) {
  EMBLEM_REQUIRE(!tables.empty(), source.input, " has no tables");
  std::vector<std::unique_ptr<ColumnarFile>> files;
  for (const auto& table : tables) {
    EMBLEM_REQUIRE(table != nullptr, source.input, ": a table is missing");
    files.push_back(open_table(table, source.input));
  }
  auto selection =
      std::make_shared<ColumnSelection>(source, requests, files[0]->fields(), source.input);
  return std::make_unique<ColumnarDecoder>(std::move(selection), std::move(files), FilePlace{});
}

}  // namespace emblem
