#include "serve/engine/tensor_values.h"

#include <limits>

#include "data/format/text/number_text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Calls use(value) with element `at` as what it is; a bool is true or false.
template <class Use>
void visit(const InputTensor& tensor, int64_t at, Use&& use) {
  switch (tensor.type) {
    case DataType::kBool:
      return use(value_at<uint8_t>(tensor, at) != 0);
    case DataType::kUint8:
      return use(value_at<uint8_t>(tensor, at));
    case DataType::kUint16:
      return use(value_at<uint16_t>(tensor, at));
    case DataType::kUint32:
      return use(value_at<uint32_t>(tensor, at));
    case DataType::kUint64:
      return use(value_at<uint64_t>(tensor, at));
    case DataType::kInt8:
      return use(value_at<int8_t>(tensor, at));
    case DataType::kInt16:
      return use(value_at<int16_t>(tensor, at));
    case DataType::kInt32:
      return use(value_at<int32_t>(tensor, at));
    case DataType::kInt64:
      return use(value_at<int64_t>(tensor, at));
    case DataType::kFp32:
      return use(value_at<float>(tensor, at));
    case DataType::kFp64:
      return use(value_at<double>(tensor, at));
    case DataType::kFp16:
    case DataType::kBf16:
    case DataType::kBytes:
      break;
  }
}

// kUnknown of types that are not read.
ValueType values_of(DataType type) {
  switch (type) {
    case DataType::kBool:
      return {ValueKind::kBool};
    case DataType::kUint8:
    case DataType::kUint16:
    case DataType::kUint32:
    case DataType::kUint64:
    case DataType::kInt8:
    case DataType::kInt16:
    case DataType::kInt32:
    case DataType::kInt64:
      return {ValueKind::kInteger};
    case DataType::kFp32:
      return {ValueKind::kFloat};
    case DataType::kFp64:
      return {ValueKind::kDouble};
    case DataType::kBytes:
      return {ValueKind::kText};
    case DataType::kFp16:
    case DataType::kBf16:
      break;
  }
  return {};
}

bool is_integer(DataType type) {
  const ValueKind kind = values_of(type).kind;
  return kind == ValueKind::kInteger || kind == ValueKind::kBool;
}

}  // namespace

std::string type_problem(DataType type, DataType declared, const ColumnRequest& request) {
  if (type == declared || type == DataType::kBytes) return "";
  const ValueType values = values_of(type);
  if (values.kind == ValueKind::kUnknown || request.weighted)
    return cat("is ", name_of(type), ", expected ", name_of(declared));
  const bool is_number = request.type == ColumnType::kFloat;
  if (is_number && request.trained.type.kind == ValueKind::kText) return "";
  return kind_problem(request.trained, values, name_of(type));
}

std::string TensorValues::add(int64_t at) {
  if (column_.type == ColumnType::kFloat) {
    visit(tensor_, at, [&](auto value) {
      const bool is_missing = parser_.is_missing_value(static_cast<double>(value));
      column_.floats.push_back(is_missing ? std::numeric_limits<float>::quiet_NaN()
                                          : static_cast<float>(value));
    });
    return {};
  }
  if (column_.type == ColumnType::kText || !is_integer(tensor_.type)) return add_text(at);
  visit(tensor_, at, [&](auto value) {
    const auto id = static_cast<int64_t>(value);
    append_id(parser_.is_missing_value(id) ? kMissingId : id, column_);
  });
  return {};
}

std::string TensorValues::add_text(int64_t at) {
  text_.clear();
  visit(tensor_, at, [&](auto value) { write_value(value, text_); });
  return request_.has_bags() ? parser_.add_value(text_) : add_single(parser_, text_, column_);
}

std::string add_single(const CsvFieldParser& parser, std::string_view text, Column& column) {
  const auto row = static_cast<int64_t>(values_in(column));
  if (column.type == ColumnType::kFloat) column.floats.push_back(0);
  if (column.type == ColumnType::kInt64) {
    column.missing.resize(column.ints.size(), 0);
    column.ints.push_back(0);
    column.missing.push_back(0);
  }
  return parser.add(text, row);
}

void append_id(int64_t id, Column& column) {
  if (id == kMissingId && column.missing.empty()) column.missing.resize(column.ints.size(), 0);
  if (id == kMissingId || !column.missing.empty()) column.missing.push_back(id == kMissingId);
  column.ints.push_back(id == kMissingId ? 0 : id);
}

}  // namespace emblem
