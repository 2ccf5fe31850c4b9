#ifdef EMBLEM_WITH_ARROW
#include "data/format/arrow_leaf.h"

#include <arrow/array.h>
#include <arrow/type_traits.h>
#include <arrow/util/decimal.h>

#include "core/half.h"

namespace emblem {
namespace {

// Appends array values by `append(i)`, or a missing value.
template <class Append>
void append_each(const arrow::Array& array, int64_t begin, int64_t end, Column& out,
                 Append append) {
  const bool any_null = array.null_count() > 0;
  for (int64_t i = begin; i < end; ++i) {
    if (any_null && array.IsNull(i)) {
      append_missing(out);
    } else {
      append(i);
    }
  }
}

template <class Type>
void append_plain(const arrow::Array& array, int64_t begin, int64_t end, Column& out,
                  std::vector<ValueProblem>& problems) {
  const auto* const values = static_cast<const arrow::NumericArray<Type>&>(array).raw_values();
  if (array.null_count() == 0) return append_numbers(values + begin, end - begin, out, problems);
  append_each(array, begin, end, out,
              [&](int64_t i) { append_numbers(values + i, 1, out, problems); });
}

template <class Array>
void append_strings(const arrow::Array& array, int64_t begin, int64_t end, Column& out) {
  const auto& values = static_cast<const Array&>(array);
  append_each(array, begin, end, out, [&](int64_t i) { append_text(values.GetView(i), out); });
}

void append_bools(const arrow::Array& array, int64_t begin, int64_t end, Column& out,
                  std::vector<ValueProblem>& problems) {
  const auto& values = static_cast<const arrow::BooleanArray&>(array);
  append_each(array, begin, end, out, [&](int64_t i) {
    const auto value = static_cast<uint8_t>(values.Value(i));
    append_numbers(&value, 1, out, problems);
  });
}

void append_halves(const arrow::Array& array, int64_t begin, int64_t end, Column& out,
                   std::vector<ValueProblem>& problems) {
  const auto* const bits = static_cast<const arrow::HalfFloatArray&>(array).raw_values();
  append_each(array, begin, end, out, [&](int64_t i) {
    const float value = F16{bits[i]}.to_float();
    append_numbers(&value, 1, out, problems);
  });
}

template <class Decimal>
void append_decimals(const arrow::Array& array, int64_t begin, int64_t end, Column& out,
                     std::vector<ValueProblem>& problems) {
  const auto& values = static_cast<const arrow::FixedSizeBinaryArray&>(array);
  const int scale = static_cast<const arrow::DecimalType&>(*array.type()).scale();
  append_each(array, begin, end, out, [&](int64_t i) {
    const Decimal decimal(values.GetValue(i));
    if (scale > 0) {
      const double value = decimal.ToDouble(scale);
      append_numbers(&value, 1, out, problems);
    } else {
      append_integer_text(decimal.ToIntegerString(), out, problems);
    }
  });
}

std::shared_ptr<TextDictionary> entries_of(const arrow::Array& array,
                                           std::vector<ValueProblem>& problems) {
  Column entries;
  entries.clear(ColumnType::kText);
  ArrowDictionary none;
  append_arrow_values(array, 0, array.length(), false, none, entries, problems);
  auto dictionary = std::make_shared<TextDictionary>();
  dictionary->text = std::move(entries.text);
  dictionary->ends = std::move(entries.text_ends);
  return dictionary;
}

void append_dictionary(const arrow::DictionaryArray& array, int64_t begin, int64_t end, bool codes,
                       ArrowDictionary& dictionary, Column& out,
                       std::vector<ValueProblem>& problems) {
  const std::shared_ptr<arrow::Array>& values = array.dictionary();
  if (codes && (out.dictionary == nullptr || dictionary.array == values)) {
    if (dictionary.array != values) dictionary = {values, entries_of(*values, problems)};
    out.dictionary = dictionary.entries;
    append_each(array, begin, end, out, [&](int64_t i) {
      out.codes.push_back(static_cast<int32_t>(array.GetValueIndex(i)));
    });
    return;
  }
  ArrowDictionary none;
  append_each(array, begin, end, out, [&](int64_t i) {
    const int64_t at = array.GetValueIndex(i);
    append_arrow_values(*values, at, at + 1, false, none, out, problems);
  });
}

LeafType decimal_type(const arrow::DataType& type) {
  return static_cast<const arrow::DecimalType&>(type).scale() > 0 ? LeafType::kDouble
                                                                  : LeafType::kInteger;
}

template <class Decimal>
void append_decimal_digits(const arrow::Array& array, int64_t begin, int64_t end, Column& out) {
  const auto& values = static_cast<const arrow::FixedSizeBinaryArray&>(array);
  const int scale = static_cast<const arrow::DecimalType&>(*array.type()).scale();
  append_each(array, begin, end, out,
              [&](int64_t i) { append_text(Decimal(values.GetValue(i)).ToString(scale), out); });
}

}  // namespace

std::string arrow_stored_type(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::NA:
    case arrow::Type::UINT64:
    case arrow::Type::DOUBLE:
    case arrow::Type::BOOL:
    case arrow::Type::DATE32:
    case arrow::Type::DATE64:
    case arrow::Type::TIME32:
    case arrow::Type::TIME64:
    case arrow::Type::TIMESTAMP:
    case arrow::Type::DURATION:
      return type.ToString();
    case arrow::Type::DECIMAL128:
    case arrow::Type::DECIMAL256: {
      const auto& decimal = static_cast<const arrow::DecimalType&>(type);
      return stored_decimal(decimal.precision(), decimal.scale());
    }
    case arrow::Type::BINARY:
    case arrow::Type::LARGE_BINARY:
    case arrow::Type::BINARY_VIEW:
    case arrow::Type::FIXED_SIZE_BINARY:
      return "binary";
    case arrow::Type::DICTIONARY:
      return arrow_stored_type(*static_cast<const arrow::DictionaryType&>(type).value_type());
    default:
      return "";
  }
}

void append_arrow_digits(const arrow::Array& array, int64_t begin, int64_t end, Column& out) {
  switch (array.type_id()) {
    case arrow::Type::DECIMAL128:
      return append_decimal_digits<arrow::Decimal128>(array, begin, end, out);
    case arrow::Type::DECIMAL256:
      return append_decimal_digits<arrow::Decimal256>(array, begin, end, out);
    case arrow::Type::DICTIONARY: {
      const auto& coded = static_cast<const arrow::DictionaryArray&>(array);
      return append_each(array, begin, end, out, [&](int64_t i) {
        const int64_t at = coded.GetValueIndex(i);
        append_arrow_digits(*coded.dictionary(), at, at + 1, out);
      });
    }
    default: {
      const double* const values = static_cast<const arrow::DoubleArray&>(array).raw_values();
      append_each(array, begin, end, out, [&](int64_t i) { append_number_text(values[i], out); });
    }
  }
}

LeafType arrow_leaf_type(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::NA:
    case arrow::Type::BOOL:
    case arrow::Type::INT8:
    case arrow::Type::INT16:
    case arrow::Type::INT32:
    case arrow::Type::INT64:
    case arrow::Type::UINT8:
    case arrow::Type::UINT16:
    case arrow::Type::UINT32:
    case arrow::Type::DATE32:
    case arrow::Type::DATE64:
    case arrow::Type::TIME32:
    case arrow::Type::TIME64:
    case arrow::Type::TIMESTAMP:
    case arrow::Type::DURATION:
      return LeafType::kInteger;
    case arrow::Type::UINT64:
      return LeafType::kUnsigned;
    case arrow::Type::HALF_FLOAT:
    case arrow::Type::FLOAT:
      return LeafType::kFloat;
    case arrow::Type::DOUBLE:
      return LeafType::kDouble;
    case arrow::Type::DECIMAL128:
    case arrow::Type::DECIMAL256:
      return decimal_type(type);
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY_VIEW:
    case arrow::Type::FIXED_SIZE_BINARY:
      return LeafType::kText;
    case arrow::Type::DICTIONARY:
      return arrow_leaf_type(*static_cast<const arrow::DictionaryType&>(type).value_type());
    default:
      return LeafType::kOther;
  }
}

void append_arrow_values(const arrow::Array& array, int64_t begin, int64_t end, bool codes,
                         ArrowDictionary& dictionary, Column& out,
                         std::vector<ValueProblem>& problems) {
  switch (array.type_id()) {
    case arrow::Type::NA:
      for (int64_t i = begin; i < end; ++i) append_missing(out);
      return;
    case arrow::Type::BOOL:
      return append_bools(array, begin, end, out, problems);
    case arrow::Type::INT8:
      return append_plain<arrow::Int8Type>(array, begin, end, out, problems);
    case arrow::Type::INT16:
      return append_plain<arrow::Int16Type>(array, begin, end, out, problems);
    case arrow::Type::INT32:
    case arrow::Type::DATE32:
    case arrow::Type::TIME32:
      return append_plain<arrow::Int32Type>(array, begin, end, out, problems);
    case arrow::Type::INT64:
    case arrow::Type::DATE64:
    case arrow::Type::TIME64:
    case arrow::Type::TIMESTAMP:
    case arrow::Type::DURATION:
      return append_plain<arrow::Int64Type>(array, begin, end, out, problems);
    case arrow::Type::UINT8:
      return append_plain<arrow::UInt8Type>(array, begin, end, out, problems);
    case arrow::Type::UINT16:
      return append_plain<arrow::UInt16Type>(array, begin, end, out, problems);
    case arrow::Type::UINT32:
      return append_plain<arrow::UInt32Type>(array, begin, end, out, problems);
    case arrow::Type::UINT64:
      return append_plain<arrow::UInt64Type>(array, begin, end, out, problems);
    case arrow::Type::HALF_FLOAT:
      return append_halves(array, begin, end, out, problems);
    case arrow::Type::FLOAT:
      return append_plain<arrow::FloatType>(array, begin, end, out, problems);
    case arrow::Type::DOUBLE:
      return append_plain<arrow::DoubleType>(array, begin, end, out, problems);
    case arrow::Type::DECIMAL128:
      return append_decimals<arrow::Decimal128>(array, begin, end, out, problems);
    case arrow::Type::DECIMAL256:
      return append_decimals<arrow::Decimal256>(array, begin, end, out, problems);
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return append_strings<arrow::BinaryArray>(array, begin, end, out);
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      return append_strings<arrow::LargeBinaryArray>(array, begin, end, out);
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY_VIEW:
      return append_strings<arrow::BinaryViewArray>(array, begin, end, out);
    case arrow::Type::FIXED_SIZE_BINARY:
      return append_strings<arrow::FixedSizeBinaryArray>(array, begin, end, out);
    case arrow::Type::DICTIONARY:
      return append_dictionary(static_cast<const arrow::DictionaryArray&>(array), begin, end, codes,
                               dictionary, out, problems);
    default:
      throw Error(ErrorCode::kUnsupported,
                  cat("values of type ", array.type()->ToString(), " cannot be read"));
  }
}

}  // namespace emblem
#endif
