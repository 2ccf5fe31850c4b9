// serve/protocol/tensor.h - tensors as the inference protocol knows them: typed, shaped, raw
// little-endian bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace emblem {

enum class DataType : uint8_t {
  kBool,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFp16,
  kFp32,
  kFp64,
  kBytes,  // elements of any length: each a 32-bit length and its bytes
  kBf16,
};

// "INT64"; in model configurations "TYPE_INT64", and "TYPE_STRING" for kBytes.
const char* name_of(DataType type);
const char* config_name_of(DataType type);
std::optional<DataType> data_type_from_name(std::string_view name);

// Size of one element; 0 for kBytes.
size_t element_bytes(DataType type);

// Throws for negative sizes and for more elements than 2^40.
int64_t element_count(std::span<const int64_t> shape);

// Longer shapes and names (of tensors, models, parameters, regions) are refused before they are
// kept or quoted.
inline constexpr size_t kMostDimensions = 32;
inline constexpr size_t kMostNameBytes = 4096;
inline constexpr size_t kMostIdBytes = size_t{64} << 10;
void require_dimensions(std::string_view tensor, size_t dimensions);
// `what` it names: "a model".
void require_name(const char* what, std::string_view name);

// "[2,26]"
std::string shape_text(std::span<const int64_t> shape);

// One input of a request. `data` belongs to the request.
struct InputTensor {
  std::string name;
  DataType type = DataType::kFp32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
  // Its values must not appear in messages: the client may have named memory of another process.
  bool in_shared_memory = false;
};

struct OutputTensor {
  std::string name;
  DataType type = DataType::kFp32;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;
};

// Calls take(std::string_view) for each element of a kBytes tensor. Throws when `data` does not
// hold exactly `count` elements.
template <class Take>
void for_each_string(std::span<const std::byte> data, int64_t count, Take&& take);

// Throws unless `data` has exactly the bytes that type and shape call for.
void check_bytes(const InputTensor& tensor);

// The same of a tensor whose `bytes` are in shared memory, before they are copied from there. Those
// of kBytes tensors are known only when they are read.
void check_region_bytes(const InputTensor& tensor, uint64_t bytes);

// What clients ask for with the classification extension: of each row of `output` (its last
// dimensions flattened) the `classes` highest values as "value:index", or "value:index:label" where
// there are labels; kBytes of shape [rows, classes].
OutputTensor classify(const OutputTensor& output, int64_t classes, bool batched,
                      std::span<const std::string> labels);
// Size of a value of an FP32 output without labels.
inline constexpr size_t kMostClassifiedBytes = 72;

// ---- implementation ----

namespace detail {
// Takes one element off the front of `rest`; throws when it is cut off.
std::string_view take_string(std::span<const std::byte>& rest);
[[noreturn]] void throw_left_over();
}  // namespace detail

template <class Take>
void for_each_string(std::span<const std::byte> data, int64_t count, Take&& take) {
  for (int64_t i = 0; i < count; ++i) take(detail::take_string(data));
  if (!data.empty()) detail::throw_left_over();
}

}  // namespace emblem
