// Parquet files, by libparquet's column readers: each column goes straight to a Column, without
// Arrow arrays in between.
#ifdef EMBLEM_WITH_ARROW
#include <parquet/column_page.h>
#include <parquet/column_reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>
#include <parquet/statistics.h>

#include <new>

#include "data/format/columnar/arrow_input.h"
#include "data/format/columnar/columnar_decoder.h"
#include "data/format/columnar/leaf_values.h"
#include "data/format/columnar/parquet_column.h"
#include "data/format/columnar/parquet_schema.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Runs `body`; what libparquet throws becomes an Error that names the place.
template <class Place, class Body>
auto with_place(const Place& place, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    throw Error(error.code(), cat(place(), ": ", error.what()));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw arrow_error(place(), error.what());
  }
}

class ParquetPart final : public PartReader {
 public:
  ParquetPart(std::string place, std::shared_ptr<parquet::RowGroupReader> group,
              const std::vector<ParquetField>& fields, const std::vector<ColumnRead>& reads)
      : place_(std::move(place)), group_(std::move(group)) {
    columns_.resize(reads.size());
    for (size_t i = 0; i < reads.size(); ++i) {
      Open& column = columns_[i];
      const ParquetField& field = fields[static_cast<size_t>(reads[i].field)];
      column.field = &field;
      column.how = reads[i];
      with_place([&] { return place_of(i); }, [&] { open(column); });
    }
  }

  void read(size_t at, int64_t rows, Column& out, std::vector<ValueProblem>& problems) override {
    Open& column = columns_[at];
    with_place([&] { return place_of(at); },
               [&] {
                 out.clear(column.how.type);
                 column.values->read(rows, out, problems);
                 finish_values(out);
                 if (column.weights != nullptr) read_weights(column, rows, out, problems);
               });
  }

  void skip(int64_t rows) override {
    for (size_t i = 0; i < columns_.size(); ++i) {
      with_place([&] { return place_of(i); },
                 [&] {
                   columns_[i].values->skip(rows);
                   if (columns_[i].weights != nullptr) columns_[i].weights->skip(rows);
                 });
    }
  }

 private:
  struct Open {
    const ParquetField* field = nullptr;
    ColumnRead how;
    std::unique_ptr<ParquetColumn> values, weights;
  };

  std::string place_of(size_t at) const {
    return cat(place_, ", column ", columns_[at].field->field.name);
  }

  void open(Open& column) {
    const ParquetField& field = *column.field;
    const int64_t rows = group_->metadata()->num_rows();
    const int64_t values = group_->metadata()->ColumnChunk(field.values.column)->num_values();
    if (field.field.lists == 0 ? values != rows : values < rows)
      throw Error(ErrorCode::kCorruption,
                  cat("it has ", values, " values, but the row group has ", rows, " rows"));
    column.values =
        open_parquet_column(*group_, field.values, field.field.lists, column.how, buffers_);
    if (!field.field.weighted) return;
    ColumnRead numbers = column.how;
    numbers.type = ColumnType::kFloat;
    numbers.codes = false;
    column.weights =
        open_parquet_column(*group_, field.weights, field.field.lists, numbers, buffers_);
  }

  void read_weights(Open& column, int64_t rows, Column& out, std::vector<ValueProblem>& problems) {
    weights_.clear(ColumnType::kFloat);
    column.weights->read(rows, weights_, problems);
    if (weights_.offsets != out.offsets || weights_.sequence_offsets != out.sequence_offsets)
      throw Error(ErrorCode::kCorruption, "there are not as many weights as values");
    set_weights(weights_.floats, out, problems);
  }

  std::string place_;
  std::shared_ptr<parquet::RowGroupReader> group_;
  ParquetBuffers buffers_;
  std::vector<Open> columns_;
  Column weights_;
};

template <class Type>
ValueBounds number_bounds(const parquet::Statistics& statistics) {
  const auto& typed = static_cast<const parquet::TypedStatistics<Type>&>(statistics);
  if constexpr (std::is_floating_point_v<typename Type::c_type>) {
    return {false, static_cast<double>(typed.min()), static_cast<double>(typed.max())};
  } else {
    return {false, int64_t{typed.min()}, int64_t{typed.max()}};
  }
}

std::string bytes_of(const parquet::ByteArray& bytes) {
  return {reinterpret_cast<const char*>(bytes.ptr), bytes.len};
}

// Bounds of signed integers, numbers and strings.
std::optional<ValueBounds> bounds_of(const parquet::ColumnDescriptor& column, LeafType type,
                                     const parquet::Statistics& statistics) {
  const auto& logical = column.logical_type();
  if (logical != nullptr && logical->is_decimal()) return std::nullopt;
  if (column.sort_order() == parquet::SortOrder::UNKNOWN) return std::nullopt;
  const bool is_signed = column.sort_order() == parquet::SortOrder::SIGNED;
  switch (column.physical_type()) {
    case parquet::Type::INT32:
      if (!is_signed) return std::nullopt;
      return number_bounds<parquet::Int32Type>(statistics);
    case parquet::Type::INT64:
      if (!is_signed || type != LeafType::kInteger) return std::nullopt;
      return number_bounds<parquet::Int64Type>(statistics);
    case parquet::Type::FLOAT:
      return number_bounds<parquet::FloatType>(statistics);
    case parquet::Type::DOUBLE:
      return number_bounds<parquet::DoubleType>(statistics);
    case parquet::Type::BYTE_ARRAY: {
      const auto& texts =
          static_cast<const parquet::TypedStatistics<parquet::ByteArrayType>&>(statistics);
      return ValueBounds{false, bytes_of(texts.min()), bytes_of(texts.max())};
    }
    default:
      return std::nullopt;
  }
}

bool is_empty_page(const parquet::Page& page) {
  const bool has_data =
      page.type() == parquet::PageType::DATA_PAGE || page.type() == parquet::PageType::DATA_PAGE_V2;
  return has_data && static_cast<const parquet::DataPage&>(page).num_values() == 0;
}

class PageFilter final : public parquet::PageReader {
 public:
  explicit PageFilter(std::unique_ptr<parquet::PageReader> all) : all_(std::move(all)) {}

  std::shared_ptr<parquet::Page> NextPage() override {
    std::shared_ptr<parquet::Page> page = all_->NextPage();
    while (page != nullptr && is_empty_page(*page)) page = all_->NextPage();
    return page;
  }
  void set_max_page_header_size(uint32_t size) override { all_->set_max_page_header_size(size); }

 private:
  std::unique_ptr<parquet::PageReader> all_;
};

class PagesWithValues final : public parquet::RowGroupReader::Contents {
 public:
  PagesWithValues(std::shared_ptr<parquet::RowGroupReader> group,
                  const parquet::ReaderProperties& properties)
      : group_(std::move(group)), properties_(properties) {}

  std::unique_ptr<parquet::PageReader> GetColumnPageReader(int column) override {
    return std::make_unique<PageFilter>(group_->GetColumnPageReader(column));
  }
  const parquet::RowGroupMetaData* metadata() const override { return group_->metadata(); }
  const parquet::ReaderProperties* properties() const override { return &properties_; }

 private:
  std::shared_ptr<parquet::RowGroupReader> group_;
  parquet::ReaderProperties properties_;
};

// The pages of a row group without those that have no values, which libparquet takes for the end of
// a column. `properties` are those that the file was opened with.
std::shared_ptr<parquet::RowGroupReader> without_empty_pages(
    std::shared_ptr<parquet::RowGroupReader> group, const parquet::ReaderProperties& properties) {
  return std::make_shared<parquet::RowGroupReader>(
      std::make_unique<PagesWithValues>(std::move(group), properties));
}

class ParquetFile final : public ColumnarFile {
 public:
  ParquetFile(const std::string& path, const Storage& storage)
      : path_(path), input_(std::make_shared<ArrowInput>(path, storage)) {
    with_place([&] { return path_; },
               [&] {
                 properties_.set_page_checksum_verification(true);
                 reader_ = parquet::ParquetFileReader::Open(input_, properties_);
                 metadata_ = reader_->metadata();
                 parquet_fields_ = parquet_fields(*metadata_->schema());
                 for (const ParquetField& field : parquet_fields_) fields_.push_back(field.field);
                 for (int i = 0; i < metadata_->num_row_groups(); ++i) {
                   part_rows_.push_back(metadata_->RowGroup(i)->num_rows());
                   EMBLEM_REQUIRE(part_rows_.back() >= 0, "row group ", i + 1, " has ",
                                  part_rows_.back(), " rows");
                 }
               });
  }

  const std::string& path() const override { return path_; }
  int64_t bytes() const override { return input_->file().bytes(); }
  const std::vector<ColumnarField>& fields() const override { return fields_; }
  const std::vector<int64_t>& part_rows() const override { return part_rows_; }
  const char* part_name() const override { return "row group"; }

  int64_t part_bytes(int part, const std::vector<ColumnRead>& columns) const override {
    const auto group = metadata_->RowGroup(part);
    int64_t bytes = 0;
    for (const ColumnRead& read : columns) {
      const ParquetField& field = parquet_fields_[static_cast<size_t>(read.field)];
      for (const ParquetLeaf& leaf : {field.values, field.weights})
        if (leaf.column >= 0) bytes += group->ColumnChunk(leaf.column)->total_compressed_size();
    }
    return bytes;
  }

  std::optional<ValueBounds> bounds(int part, int field) const override {
    const ParquetField& from = parquet_fields_[static_cast<size_t>(field)];
    try {
      const auto chunk = metadata_->RowGroup(part)->ColumnChunk(from.values.column);
      const std::shared_ptr<parquet::Statistics> statistics = chunk->statistics();
      if (statistics == nullptr) return std::nullopt;
      if (statistics->HasNullCount() && statistics->null_count() == chunk->num_values())
        return ValueBounds{true, {}, {}};
      if (!statistics->HasMinMax()) return std::nullopt;
      return bounds_of(*metadata_->schema()->Column(from.values.column), from.field.type,
                       *statistics);
    } catch (const std::exception&) {
      return std::nullopt;  // statistics are not needed to read the rows
    }
  }

  bool read_directly() override { return input_->file().read_directly(); }
  void prefetch(int64_t offset, int64_t count) const override {
    input_->file().prefetch(offset, count);
  }

  std::unique_ptr<PartReader> open(int part,
                                   const std::vector<ColumnRead>& columns) const override {
    const std::string place = cat(path_, ": row group ", part + 1);
    return with_place([&] { return place; },
                      [&]() -> std::unique_ptr<PartReader> {
                        return std::make_unique<ParquetPart>(
                            place, without_empty_pages(reader_->RowGroup(part), properties_),
                            parquet_fields_, columns);
                      });
  }

 private:
  std::string path_;
  std::shared_ptr<ArrowInput> input_;
  parquet::ReaderProperties properties_ = parquet::default_reader_properties();
  std::unique_ptr<parquet::ParquetFileReader> reader_;
  std::shared_ptr<parquet::FileMetaData> metadata_;
  std::vector<ParquetField> parquet_fields_;
  std::vector<ColumnarField> fields_;
  std::vector<int64_t> part_rows_;
};

}  // namespace

std::unique_ptr<ColumnarFile> open_parquet_file(const std::string& path, const Storage& storage) {
  return std::make_unique<ParquetFile>(path, storage);
}

}  // namespace emblem
#endif
