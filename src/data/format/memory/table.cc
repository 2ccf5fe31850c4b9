#include "data/format/memory/table.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "data/format/decoder.h"
#include "data/format/memory/array_format.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr const char* kTablePlace = "the table in memory";

// A struct of the interface that is taken over: released once.
template <class Struct>
class Owned {
 public:
  explicit Owned(Struct* given) : value_(*given) { given->release = nullptr; }
  Owned(Owned&& other) noexcept : value_(other.value_) { other.value_.release = nullptr; }
  Owned& operator=(Owned&&) = delete;
  ~Owned() {
    if (value_.release != nullptr) value_.release(&value_);
  }
  Struct& operator*() { return value_; }
  Struct* operator->() { return &value_; }

 private:
  Struct value_;
};

// The struct of columns that are arrays of their own.
struct ColumnStruct {
  std::vector<ArrowSchema*> schemas;
  std::vector<ArrowArray*> arrays;
  const void* no_bits = nullptr;
  ArrowSchema schema{};
  ArrowArray array{};

  void close(int64_t rows) {
    schema.format = "+s";
    schema.name = "";
    schema.release = [](ArrowSchema*) {};
    schema.n_children = array.n_children = static_cast<int64_t>(schemas.size());
    schema.children = schemas.data();
    array.length = rows;
    array.n_buffers = 1;
    array.buffers = &no_bits;
    array.children = arrays.data();
    array.release = [](ArrowArray*) {};
  }
};

class BatchTable final : public ColumnTable {
 public:
  BatchTable(Owned<ArrowSchema> schema, Owned<ArrowArray> array)
      : own_schema_(std::move(schema)), own_array_(std::move(array)) {
    set(*own_schema_, *own_array_);
  }

 private:
  Owned<ArrowSchema> own_schema_;
  Owned<ArrowArray> own_array_;
};

class ArraysTable final : public ColumnTable {
 public:
  ArraysTable(std::vector<Owned<ArrowSchema>> schemas, std::vector<Owned<ArrowArray>> arrays)
      : schemas_(std::move(schemas)), arrays_(std::move(arrays)) {
    EMBLEM_REQUIRE(schemas_.size() == arrays_.size() && !schemas_.empty(), kTablePlace, ": ",
                   schemas_.size(), " schemas and ", arrays_.size(),
                   " arrays are given; expected one of each for every column");
    for (size_t i = 0; i < schemas_.size(); ++i) {
      ArrowSchema& schema = *schemas_[i];
      const std::string name = schema.name == nullptr ? "" : schema.name;
      EMBLEM_REQUIRE(schema.release != nullptr && arrays_[i]->release != nullptr, kTablePlace,
                     ": column ", in_quotes(name), ": it was released before");
      EMBLEM_REQUIRE(arrays_[i]->length == arrays_[0]->length, kTablePlace, ": column ",
                     in_quotes(name), " has ", arrays_[i]->length, " rows, but the first has ",
                     arrays_[0]->length);
      columns_.schemas.push_back(&schema);
      columns_.arrays.push_back(&*arrays_[i]);
    }
    columns_.close(arrays_[0]->length);
    set(columns_.schema, columns_.array);
  }

 private:
  std::vector<Owned<ArrowSchema>> schemas_;
  std::vector<Owned<ArrowArray>> arrays_;
  ColumnStruct columns_;
};

// The format of timestamps and dates; null: there is no such unit.
const char* time_format(std::string_view unit, bool is_int64) {
  constexpr std::pair<std::string_view, const char*> kFormats[] = {
      {"s", "tss:"}, {"ms", "tsm:"}, {"us", "tsu:"}, {"ns", "tsn:"}, {"day", "tdD"}};
  for (const auto& [name, format] : kFormats)
    if (name == unit) return is_int64 == (name != "day") ? format : nullptr;
  return nullptr;
}

// An array over a span, and those below it.
struct SpanArray {
  ArrowSchema schema{};
  ArrowArray array{};
  const void* buffers[3] = {};
  std::string name;
  std::vector<uint8_t> valid;
  std::vector<ArrowSchema*> schemas;
  std::vector<ArrowArray*> arrays;
  // What strings are copied to.
  std::string text;
  std::vector<int32_t> offsets;

  void rename(std::string other) {
    name = std::move(other);
    schema.name = name.c_str();
  }

  void close(const char* format, int64_t length, int64_t buffer_count) {
    rename("item");
    schema.format = format;
    schema.flags = ARROW_FLAG_NULLABLE;
    schema.children = schemas.data();
    array.length = length;
    array.n_buffers = buffer_count;
    array.buffers = buffers;
    array.children = arrays.data();
    schema.n_children = array.n_children = static_cast<int64_t>(schemas.size());
  }
};

// Arrays over spans.
class SpansTable final : public ColumnTable {
 public:
  SpansTable(const std::vector<ColumnSpan>& columns, std::shared_ptr<const void> owner)
      : owner_(std::move(owner)) {
    EMBLEM_REQUIRE(!columns.empty(), kTablePlace, " has no columns");
    for (const ColumnSpan& column : columns) add(column);
    const int64_t rows = columns_.arrays[0]->length;
    for (size_t i = 0; i < columns.size(); ++i)
      EMBLEM_REQUIRE(columns_.arrays[i]->length == rows, place_of(columns[i]), " has ",
                     columns_.arrays[i]->length, " rows, but the first has ", rows);
    columns_.close(rows);
    set(columns_.schema, columns_.array);
  }

 private:
  static std::string place_of(const ColumnSpan& column) {
    return cat(kTablePlace, ": column ", in_quotes(column.name));
  }

  SpanArray& new_array() { return *arrays_.emplace_back(std::make_unique<SpanArray>()); }

  // Throws Error unless they are offsets into `size` of `what`.
  static void check_offsets(std::span<const int32_t> offsets, size_t size, const char* what,
                            const ColumnSpan& column) {
    EMBLEM_REQUIRE(!offsets.empty() && offsets.front() >= 0, place_of(column), ": offsets of ",
                   what, offsets.empty() ? " are missing" : " are negative");
    const auto less = std::adjacent_find(offsets.begin(), offsets.end(), std::greater<>());
    EMBLEM_REQUIRE(less == offsets.end(), place_of(column), ": offsets of ", what, " go down from ",
                   *less, " to ", *(less + 1));
    EMBLEM_REQUIRE(static_cast<size_t>(offsets.back()) <= size, place_of(column), ": offsets of ",
                   what, " go up to ", offsets.back(), ", but there are ", size);
  }

  SpanArray& plain(const char* format, const void* values, size_t count) {
    SpanArray& made = new_array();
    static constexpr int64_t kNothing = 0;
    made.buffers[1] = count == 0 ? &kNothing : values;
    made.close(format, static_cast<int64_t>(count), 2);
    return made;
  }
  SpanArray& values_of(std::span<const float> values, const ColumnSpan&) {
    return plain("f", values.data(), values.size());
  }
  SpanArray& values_of(std::span<const double> values, const ColumnSpan&) {
    return plain("g", values.data(), values.size());
  }
  SpanArray& values_of(std::span<const int32_t> values, const ColumnSpan&) {
    return plain("i", values.data(), values.size());
  }
  SpanArray& values_of(std::span<const int64_t> values, const ColumnSpan&) {
    return plain("l", values.data(), values.size());
  }
  SpanArray& values_of(const TextSpan& values, const ColumnSpan& column) {
    check_offsets(values.offsets, values.text.size(), "text", column);
    SpanArray& made = new_array();
    made.buffers[1] = values.offsets.data();
    made.buffers[2] = values.text.data();
    made.close("u", static_cast<int64_t>(values.offsets.size()) - 1, 3);
    return made;
  }
  SpanArray& values_of(std::span<const std::string> values, const ColumnSpan& column) {
    SpanArray& made = new_array();
    made.offsets.assign(1, 0);
    for (const std::string& value : values) {
      made.text += value;
      EMBLEM_REQUIRE(made.text.size() <= INT32_MAX, place_of(column),
                     " has more than 2 GiB of text; give it as several tables");
      made.offsets.push_back(static_cast<int32_t>(made.text.size()));
    }
    made.buffers[1] = made.offsets.data();
    made.buffers[2] = made.text.data();
    made.close("u", static_cast<int64_t>(values.size()), 3);
    return made;
  }

  void set_time(const ColumnSpan& column, SpanArray& values) {
    if (column.time_unit.empty()) return;
    const bool is_int32 = std::holds_alternative<std::span<const int32_t>>(column.values);
    const bool is_int64 = std::holds_alternative<std::span<const int64_t>>(column.values);
    const char* format = time_format(column.time_unit, is_int64);
    EMBLEM_REQUIRE(format != nullptr && (is_int32 || is_int64), place_of(column),
                   " has the time unit ", in_quotes(column.time_unit),
                   "; expected s, ms, us or ns of int64 values, or day of int32 values");
    values.schema.format = format;
  }

  void set_missing(const ColumnSpan& column, SpanArray& values) {
    if (column.missing.empty()) return;
    const auto count = static_cast<size_t>(values.array.length);
    EMBLEM_REQUIRE(column.missing.size() == count, place_of(column), " has ", count,
                   " values, but `missing` has ", column.missing.size());
    values.valid.assign((count + 7) / 8, 0);
    for (size_t i = 0; i < count; ++i)
      if (column.missing[i] == 0)
        values.valid[i / 8] = static_cast<uint8_t>(values.valid[i / 8] | 1 << i % 8);
    values.buffers[0] = values.valid.data();
    values.array.null_count = -1;
  }

  SpanArray& with_weights(const ColumnSpan& column, SpanArray& keys) {
    EMBLEM_REQUIRE(static_cast<int64_t>(column.weights.size()) == keys.array.length,
                   place_of(column), " has ", keys.array.length, " values, but ",
                   column.weights.size(), " weights");
    EMBLEM_REQUIRE(!column.offsets.empty() && column.sequence_offsets.empty(), place_of(column),
                   " has weights; only lists may have them");
    SpanArray& weights = plain("f", column.weights.data(), column.weights.size());
    keys.rename("key");
    weights.rename("weight");
    SpanArray& pairs = new_array();
    pairs.schemas = {&keys.schema, &weights.schema};
    pairs.arrays = {&keys.array, &weights.array};
    pairs.close("+s", keys.array.length, 1);
    return pairs;
  }

  SpanArray& list_of(std::span<const int32_t> offsets, const char* what, const ColumnSpan& column,
                     SpanArray& values) {
    check_offsets(offsets, static_cast<size_t>(values.array.length), what, column);
    SpanArray& made = new_array();
    made.buffers[1] = offsets.data();
    made.schemas = {&values.schema};
    made.arrays = {&values.array};
    made.close("+l", static_cast<int64_t>(offsets.size()) - 1, 2);
    return made;
  }

  void add(const ColumnSpan& column) {
    SpanArray* array =
        std::visit([&](const auto& values) { return &values_of(values, column); }, column.values);
    set_time(column, *array);
    set_missing(column, *array);
    if (!column.weights.empty()) array = &with_weights(column, *array);
    if (!column.offsets.empty()) array = &list_of(column.offsets, "lists", column, *array);
    if (!column.sequence_offsets.empty())
      array = &list_of(column.sequence_offsets, "sequences", column, *array);
    array->rename(column.name);
    columns_.schemas.push_back(&array->schema);
    columns_.arrays.push_back(&array->array);
  }

  std::shared_ptr<const void> owner_;
  std::vector<std::unique_ptr<SpanArray>> arrays_;
  ColumnStruct columns_;
};

// Bytes of buffers whose sizes the formats say, not those of text; a bool counts as a byte.
int64_t bytes_of(const ArrowSchema& schema, const ArrowArray& array) {
  const ArrayFormat format = array_format(schema);
  int64_t bytes = format.layout == ArrayLayout::kFixedList ? 0 : format.size * array.length;
  for (int64_t i = 0; i < array.n_children; ++i)
    bytes += bytes_of(*schema.children[i], *array.children[i]);
  return bytes;
}

}  // namespace

void ColumnTable::set(const ArrowSchema& schema, const ArrowArray& array) {
  check_schema(schema, kTablePlace);
  check_array(schema, array, kTablePlace);
  schema_ = &schema;
  array_ = &array;
  bytes_ = bytes_of(schema, array);
}

std::shared_ptr<const ColumnTable> ColumnTable::of_batch(ArrowSchema* schema, ArrowArray* array) {
  return std::make_shared<BatchTable>(Owned(schema), Owned(array));
}

std::shared_ptr<const ColumnTable> ColumnTable::of_arrays(std::span<ArrowSchema> schemas,
                                                          std::span<ArrowArray> arrays) {
  std::vector<Owned<ArrowSchema>> own_schemas;
  std::vector<Owned<ArrowArray>> own_arrays;
  own_schemas.reserve(schemas.size());
  own_arrays.reserve(arrays.size());
  for (ArrowSchema& schema : schemas) own_schemas.emplace_back(&schema);
  for (ArrowArray& array : arrays) own_arrays.emplace_back(&array);
  return std::make_shared<ArraysTable>(std::move(own_schemas), std::move(own_arrays));
}

std::shared_ptr<const ColumnTable> ColumnTable::of_spans(const std::vector<ColumnSpan>& columns,
                                                         std::shared_ptr<const void> owner) {
  return std::make_shared<SpansTable>(columns, std::move(owner));
}

NextTable tables_of(ArrowArrayStream* stream) {
  const auto own = std::make_shared<Owned<ArrowArrayStream>>(stream);
  return [own]() -> std::shared_ptr<const ColumnTable> {
    ArrowArrayStream& from = **own;
    if (from.release == nullptr) return nullptr;  // it has ended
    const auto require_ok = [&](int code) {
      if (code == 0) return;
      const char* const why = from.get_last_error(&from);
      throw Error(ErrorCode::kUnavailable, cat("the stream of tables cannot be read: ",
                                               why == nullptr ? std::strerror(code) : why));
    };
    ArrowSchema schema{};
    ArrowArray array{};
    require_ok(from.get_next(&from, &array));
    if (array.release == nullptr) {
      from.release(&from);
      from.release = nullptr;
      return nullptr;
    }
    Owned<ArrowArray> own_array(&array);
    require_ok(from.get_schema(&from, &schema));
    return ColumnTable::of_batch(&schema, &*own_array);
  };
}

}  // namespace emblem
