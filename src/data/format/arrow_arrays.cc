#ifdef EMBLEM_WITH_ARROW
#include "data/format/arrow_arrays.h"

#include <arrow/array.h>
#include <arrow/builder.h>

#include <cmath>
#include <numeric>

#include "data/format/arrow_input.h"
#include "data/format/decoder.h"
#include "data/format/text_scan.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// "timestamp[us]", "timestamp[us, tz=UTC]".
std::shared_ptr<arrow::DataType> timestamp_of(std::string_view name) {
  constexpr std::string_view kStart = "timestamp[", kZone = ", tz=";
  name.remove_prefix(kStart.size());
  name.remove_suffix(1);
  const size_t comma = name.find(kZone);
  const std::string_view unit = name.substr(0, comma);
  const std::string zone(comma == name.npos ? "" : name.substr(comma + kZone.size()));
  for (const auto known : {arrow::TimeUnit::SECOND, arrow::TimeUnit::MILLI, arrow::TimeUnit::MICRO})
    if (arrow::timestamp(known)->ToString() == cat(kStart, unit, "]"))
      return arrow::timestamp(known, zone);
  return arrow::timestamp(arrow::TimeUnit::NANO, zone);
}

// Of kInt64, by ColumnSpec::stored.
std::shared_ptr<arrow::DataType> integer_type(const std::string& stored) {
  if (stored.starts_with("timestamp[")) return timestamp_of(stored);
  using Unit = arrow::TimeUnit;
  for (const auto& type :
       {arrow::uint64(), arrow::boolean(), arrow::date32(), arrow::date64(),
        arrow::time32(Unit::SECOND), arrow::time32(Unit::MILLI), arrow::time64(Unit::MICRO),
        arrow::time64(Unit::NANO), arrow::duration(Unit::SECOND), arrow::duration(Unit::MILLI),
        arrow::duration(Unit::MICRO), arrow::duration(Unit::NANO)})
    if (type->ToString() == stored) return type;
  return arrow::int64();
}

std::shared_ptr<arrow::DataType> leaf_type(const ColumnSpec& column) {
  switch (column.type) {
    case ColumnType::kFloat:
      return arrow::float32();
    case ColumnType::kInt64:
      return integer_type(column.stored);
    case ColumnType::kText:
      break;
  }
  if (column.stored == "double") return arrow::float64();
  return column.stored == "binary" ? arrow::binary() : arrow::utf8();
}

std::shared_ptr<arrow::DataType> type_of(const ColumnSpec& column) {
  std::shared_ptr<arrow::DataType> type = leaf_type(column);
  if (column.weighted)
    type = arrow::struct_({arrow::field("key", type), arrow::field("weight", arrow::float32())});
  for (int i = 0; i < column.lists; ++i) type = arrow::list(type);
  return type;
}

template <class Builder>
std::shared_ptr<arrow::Array> finish(Builder& builder, const std::string& name) {
  return value_of(builder.Finish(), name);
}

std::shared_ptr<arrow::Array> float_array(const HostVector<float>& values,
                                          const std::string& name) {
  std::vector<uint8_t> valid(values.size());
  for (size_t i = 0; i < values.size(); ++i) valid[i] = !std::isnan(values[i]);
  arrow::FloatBuilder builder;
  require_ok(builder.AppendValues(values.data(), static_cast<int64_t>(values.size()), valid.data()),
             name);
  return finish(builder, name);
}

template <class Builder, class Value>
std::shared_ptr<arrow::Array> int_array(Builder& builder, const Value* values, const Column& column,
                                        const std::string& name) {
  std::vector<uint8_t> valid(column.missing.size());
  for (size_t i = 0; i < valid.size(); ++i) valid[i] = column.missing[i] == 0;
  require_ok(builder.AppendValues(values, static_cast<int64_t>(column.ints.size()),
                                  valid.empty() ? nullptr : valid.data()),
             name);
  return finish(builder, name);
}

// Values of the builder's type, which has a unit.
template <class Builder>
std::shared_ptr<arrow::Array> unit_array(const std::shared_ptr<arrow::DataType>& type,
                                         const Column& column, const std::string& name) {
  Builder builder(type, arrow::default_memory_pool());
  const std::vector<typename Builder::value_type> values(column.ints.begin(), column.ints.end());
  return int_array(builder, values.data(), column, name);
}

std::shared_ptr<arrow::Array> int_array(const ColumnSpec& spec, const Column& column) {
  const std::shared_ptr<arrow::DataType> type = leaf_type(spec);
  const int64_t* const values = column.ints.data();
  switch (type->id()) {
    case arrow::Type::UINT64: {
      arrow::UInt64Builder builder;
      return int_array(builder, reinterpret_cast<const uint64_t*>(values), column, spec.name);
    }
    case arrow::Type::BOOL: {
      const std::vector<uint8_t> bools(column.ints.begin(), column.ints.end());
      arrow::BooleanBuilder builder;
      return int_array(builder, bools.data(), column, spec.name);
    }
    case arrow::Type::DATE32:
      return unit_array<arrow::Date32Builder>(type, column, spec.name);
    case arrow::Type::DATE64:
      return unit_array<arrow::Date64Builder>(type, column, spec.name);
    case arrow::Type::TIME32:
      return unit_array<arrow::Time32Builder>(type, column, spec.name);
    case arrow::Type::TIME64:
      return unit_array<arrow::Time64Builder>(type, column, spec.name);
    case arrow::Type::TIMESTAMP:
      return unit_array<arrow::TimestampBuilder>(type, column, spec.name);
    case arrow::Type::DURATION:
      return unit_array<arrow::DurationBuilder>(type, column, spec.name);
    default: {
      arrow::Int64Builder builder;
      return int_array(builder, values, column, spec.name);
    }
  }
}

// Calls append(text) or, for an empty one, append_null() for every value.
template <class Append, class AppendNull>
void each_text(const Column& column, Append append, AppendNull append_null) {
  size_t begin = 0;
  for (const uint32_t end : column.text_ends) {
    if (begin == end) {
      append_null();
    } else {
      append(std::string_view(column.text).substr(begin, end - begin));
    }
    begin = end;
  }
}

template <class Builder>
std::shared_ptr<arrow::Array> text_array(const Column& column, const std::string& name) {
  Builder builder;
  require_ok(builder.Reserve(static_cast<int64_t>(column.text_ends.size())), name);
  require_ok(builder.ReserveData(static_cast<int64_t>(column.text.size())), name);
  each_text(
      column, [&](std::string_view text) { builder.UnsafeAppend(text); },
      [&] { builder.UnsafeAppendNull(); });
  return finish(builder, name);
}

// Of numbers as text.
std::shared_ptr<arrow::Array> double_array(const Column& column, const std::string& name) {
  arrow::DoubleBuilder builder;
  require_ok(builder.Reserve(static_cast<int64_t>(column.text_ends.size())), name);
  each_text(
      column,
      [&](std::string_view text) {
        double value = 0;
        EMBLEM_REQUIRE(parse_double(text, value), "column ", in_quotes(name), ": ", in_quotes(text),
                       " is not a number");
        if (std::isnan(value)) return builder.UnsafeAppendNull();
        builder.UnsafeAppend(value);
      },
      [&] { builder.UnsafeAppendNull(); });
  return finish(builder, name);
}

std::shared_ptr<arrow::Array> leaf_array(const ColumnSpec& spec, const Column& column) {
  switch (column.type) {
    case ColumnType::kFloat:
      return float_array(column.floats, spec.name);
    case ColumnType::kInt64:
      return int_array(spec, column);
    case ColumnType::kText:
      break;
  }
  if (spec.stored == "double") return double_array(column, spec.name);
  return spec.stored == "binary" ? text_array<arrow::BinaryBuilder>(column, spec.name)
                                 : text_array<arrow::StringBuilder>(column, spec.name);
}

// Offsets of lists; each has one entry where there are none.
std::shared_ptr<arrow::Array> list_array(const HostVector<int32_t>& offsets, int64_t lists,
                                         const std::shared_ptr<arrow::Array>& values,
                                         const std::string& name) {
  std::vector<int32_t> own(offsets.begin(), offsets.end());
  if (own.empty()) {
    own.resize(static_cast<size_t>(lists + 1));
    std::iota(own.begin(), own.end(), 0);
  }
  arrow::Int32Builder builder;
  require_ok(builder.AppendValues(own), name);
  const auto array = finish(builder, name);
  return value_of(arrow::ListArray::FromArrays(*array, *values), name);
}

std::shared_ptr<arrow::Array> array_of(const ColumnSpec& spec, const Column& column, int64_t rows) {
  EMBLEM_REQUIRE(column.type == spec.type, "column ", in_quotes(spec.name),
                 " changes its type between blocks");
  EMBLEM_REQUIRE(spec.lists > 0 || (column.offsets.empty() && column.sequence_offsets.empty()),
                 "column ", in_quotes(spec.name),
                 " holds several values in a row, but was said to hold one");
  EMBLEM_REQUIRE(spec.weighted || column.weights.empty(), "column ", in_quotes(spec.name),
                 " holds weighted values, which are written as lists only");
  std::shared_ptr<arrow::Array> array = leaf_array(spec, column);
  if (spec.weighted) {
    HostVector<float> weights = column.weights;
    if (weights.empty()) weights.assign(static_cast<size_t>(array->length()), 1.0f);
    array = value_of(arrow::StructArray::Make({array, float_array(weights, spec.name)},
                                              std::vector<std::string>{"key", "weight"}),
                     spec.name);
  }
  const bool is_sequence = !column.sequence_offsets.empty();
  if (spec.lists == 2) {
    const int64_t bags = is_sequence ? column.sequence_offsets.back() : rows;
    array = list_array(column.offsets, bags, array, spec.name);
    return list_array(column.sequence_offsets, rows, array, spec.name);
  }
  if (spec.lists == 0) return array;
  EMBLEM_REQUIRE(!is_sequence || column.offsets.empty(), "column ", in_quotes(spec.name),
                 " holds sequences of bags, but was said to hold bags");
  return list_array(is_sequence ? column.sequence_offsets : column.offsets, rows, array, spec.name);
}

}  // namespace

std::shared_ptr<arrow::Schema> arrow_schema(const std::vector<ColumnSpec>& columns) {
  std::vector<std::shared_ptr<arrow::Field>> fields;
  for (const ColumnSpec& column : columns)
    fields.push_back(arrow::field(column.name, type_of(column)));
  return arrow::schema(fields);
}

std::shared_ptr<arrow::RecordBatch> arrow_batch(const std::vector<ColumnSpec>& columns,
                                                const std::shared_ptr<arrow::Schema>& schema,
                                                const Block& block) {
  std::vector<std::shared_ptr<arrow::Array>> arrays;
  for (size_t i = 0; i < columns.size(); ++i)
    arrays.push_back(array_of(columns[i], block.columns[i], block.rows));
  return arrow::RecordBatch::Make(schema, block.rows, arrays);
}

}  // namespace emblem
#endif
