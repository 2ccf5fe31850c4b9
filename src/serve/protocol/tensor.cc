#include "serve/protocol/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "core/text/joined.h"
#include "emblem/error.h"

namespace emblem {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are sent as they are in memory");

struct TypeFacts {
  DataType type;
  const char* name;
  const char* config_name;
  size_t bytes;
};

// Facts by the value of DataType.
constexpr TypeFacts kTypes[] = {
    {DataType::kBool, "BOOL", "TYPE_BOOL", 1},
    {DataType::kUint8, "UINT8", "TYPE_UINT8", 1},
    {DataType::kUint16, "UINT16", "TYPE_UINT16", 2},
    {DataType::kUint32, "UINT32", "TYPE_UINT32", 4},
    {DataType::kUint64, "UINT64", "TYPE_UINT64", 8},
    {DataType::kInt8, "INT8", "TYPE_INT8", 1},
    {DataType::kInt16, "INT16", "TYPE_INT16", 2},
    {DataType::kInt32, "INT32", "TYPE_INT32", 4},
    {DataType::kInt64, "INT64", "TYPE_INT64", 8},
    {DataType::kFp16, "FP16", "TYPE_FP16", 2},
    {DataType::kFp32, "FP32", "TYPE_FP32", 4},
    {DataType::kFp64, "FP64", "TYPE_FP64", 8},
    {DataType::kBytes, "BYTES", "TYPE_STRING", 0},
    {DataType::kBf16, "BF16", "TYPE_BF16", 2},
};

constexpr bool ordered() {
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    if (kTypes[i].type != static_cast<DataType>(i)) return false;
  }
  return true;
}
static_assert(ordered());

const TypeFacts& facts(DataType type) { return kTypes[static_cast<size_t>(type)]; }

template <class T>
double number_at(const std::byte* data, int64_t i) {
  T value;
  std::memcpy(&value, data + static_cast<size_t>(i) * sizeof(T), sizeof(T));
  return static_cast<double>(value);
}

double value_at(const OutputTensor& tensor, int64_t i) {
  switch (tensor.type) {
    case DataType::kFp32:
      return number_at<float>(tensor.data.data(), i);
    case DataType::kFp64:
      return number_at<double>(tensor.data.data(), i);
    case DataType::kInt32:
      return number_at<int32_t>(tensor.data.data(), i);
    case DataType::kInt64:
      return static_cast<double>(number_at<int64_t>(tensor.data.data(), i));
    default:
      throw Error(ErrorCode::kUnsupported, cat("output ", tensor.name, " of type ",
                                               name_of(tensor.type), " cannot be classified"));
  }
}

void append_string(std::vector<std::byte>& out, std::string_view text) {
  const auto length = static_cast<uint32_t>(text.size());
  const auto* head = reinterpret_cast<const std::byte*>(&length);
  out.insert(out.end(), head, head + sizeof(length));
  const auto* body = reinterpret_cast<const std::byte*>(text.data());
  out.insert(out.end(), body, body + text.size());
}

}  // namespace

const char* name_of(DataType type) { return facts(type).name; }
const char* config_name_of(DataType type) { return facts(type).config_name; }
size_t element_bytes(DataType type) { return facts(type).bytes; }

std::optional<DataType> data_type_from_name(std::string_view name) {
  for (const TypeFacts& one : kTypes) {
    if (name == one.name || name == one.config_name) return one.type;
  }
  return std::nullopt;
}

int64_t element_count(std::span<const int64_t> shape) {
  constexpr int64_t kMost = int64_t{1} << 40;
  int64_t count = 1;
  for (const int64_t size : shape) {
    EMBLEM_REQUIRE(size >= 0, "shape ", shape_text(shape), " has a negative size");
    EMBLEM_REQUIRE(size == 0 || count <= kMost / size, "shape ", shape_text(shape),
                   " has more than 2^40 elements");
    count *= size;
  }
  return count;
}

void require_name(const char* what, std::string_view name) {
  EMBLEM_REQUIRE(name.size() <= kMostNameBytes, "the name of ", what, " has ", name.size(),
                 " bytes; at most ", kMostNameBytes, " are allowed");
}

void require_dimensions(std::string_view tensor, size_t dimensions) {
  EMBLEM_REQUIRE(dimensions <= kMostDimensions, "input ", tensor, " has more than ",
                 kMostDimensions, " dimensions");
}

std::string shape_text(std::span<const int64_t> shape) { return cat("[", joined(shape, ","), "]"); }

void check_bytes(const InputTensor& tensor) {
  if (tensor.type == DataType::kBytes) {
    for_each_string(tensor.data, element_count(tensor.shape), [](std::string_view) {});
  } else {
    check_region_bytes(tensor, tensor.data.size());
  }
}

void check_region_bytes(const InputTensor& tensor, uint64_t bytes) {
  if (tensor.type == DataType::kBytes) return;
  const uint64_t expected =
      static_cast<uint64_t>(element_count(tensor.shape)) * element_bytes(tensor.type);
  EMBLEM_REQUIRE(bytes == expected, "input ", tensor.name, " has ", bytes, " bytes; ",
                 name_of(tensor.type), " ", shape_text(tensor.shape), " needs ", expected);
}

OutputTensor classify(const OutputTensor& output, int64_t classes, bool batched,
                      std::span<const std::string> labels) {
  EMBLEM_REQUIRE(classes > 0, "classification of output ", output.name,
                 " needs at least one class, not ", classes);
  const int64_t rows = batched && !output.shape.empty() ? output.shape[0] : 1;
  const int64_t each = rows == 0 ? 0 : element_count(output.shape) / rows;
  const int64_t kept = std::min(classes, each);
  OutputTensor result{.name = output.name, .type = DataType::kBytes, .shape = {}, .data = {}};
  if (batched) result.shape.push_back(rows);
  result.shape.push_back(kept);
  result.data.reserve(static_cast<size_t>(rows * kept) * kMostClassifiedBytes);
  std::vector<int64_t> order(static_cast<size_t>(each));
  for (int64_t row = 0; row < rows; ++row) {
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return value_at(output, row * each + a) > value_at(output, row * each + b);
    });
    for (int64_t k = 0; k < kept; ++k) {
      const int64_t at = order[static_cast<size_t>(k)];
      std::string text = fmt::format("{:f}:{}", value_at(output, row * each + at), at);
      if (static_cast<size_t>(at) < labels.size()) text += ":" + labels[static_cast<size_t>(at)];
      append_string(result.data, text);
    }
  }
  return result;
}

namespace detail {

std::string_view take_string(std::span<const std::byte>& rest) {
  uint32_t length = 0;
  EMBLEM_REQUIRE(rest.size() >= sizeof(length),
                 "BYTES tensor is cut off in the length of an element");
  std::memcpy(&length, rest.data(), sizeof(length));
  rest = rest.subspan(sizeof(length));
  EMBLEM_REQUIRE(rest.size() >= length,
                 "BYTES tensor is cut off: its last element is longer than the ", rest.size(),
                 " bytes that are left");
  const std::string_view text(reinterpret_cast<const char*>(rest.data()), length);
  rest = rest.subspan(length);
  return text;
}

void throw_left_over() {
  throw Error(ErrorCode::kInvalidArgument,
              "BYTES tensor has more bytes than the elements that its shape calls for");
}

}  // namespace detail
}  // namespace emblem
