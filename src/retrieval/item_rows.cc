#include "retrieval/item_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "emblem/error.h"

namespace emblem {
namespace {

// Calls use(element) with a function that returns element k of a row as a float.
template <class Use>
auto with_elements(DType type, const std::byte* row, float scale, Use&& use) {
  switch (type) {
    case DType::kF32:
      return use([values = reinterpret_cast<const float*>(row)](int64_t k) { return values[k]; });
    case DType::kF16:
      return use(
          [values = reinterpret_cast<const F16*>(row)](int64_t k) { return values[k].to_float(); });
    case DType::kBf16:
      return use([values = reinterpret_cast<const Bf16*>(row)](int64_t k) {
        return values[k].to_float();
      });
    case DType::kInt8:
      break;
  }
  return use([values = reinterpret_cast<const int8_t*>(row), scale](int64_t k) {
    return scale * static_cast<float>(values[k]);
  });
}

constexpr float kLargestF16 = 65504.0f;

}  // namespace

double length_of(std::span<const float> vector) {
  double sum = 0.0;
  for (const float value : vector) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

void normalize(std::span<float> vector) {
  const double length = length_of(vector);
  for (float& value : vector) value = static_cast<float>(value / length);
}

void ItemRows::append(std::span<const float> vector) {
  const size_t begin = bytes_.size();
  bytes_.resize(begin + static_cast<size_t>(row_bytes()));
  std::byte* const to = bytes_.data() + begin;
  if (type_ == DType::kF32) {
    std::memcpy(to, vector.data(), vector.size_bytes());
  } else if (type_ == DType::kBf16) {
    std::transform(vector.begin(), vector.end(), reinterpret_cast<Bf16*>(to), Bf16::from);
  } else if (type_ == DType::kF16) {
    for (const float value : vector)
      EMBLEM_REQUIRE(std::abs(value) <= kLargestF16, "an element of a vector is ", value,
                     ", but fp16 ends at ", kLargestF16, "; use bf16 or fp32");
    std::transform(vector.begin(), vector.end(), reinterpret_cast<F16*>(to), F16::from);
  } else {
    float largest = 0.0f;
    for (const float value : vector) largest = std::max(largest, std::abs(value));
    const float scale = largest / 127.0f;
    std::transform(vector.begin(), vector.end(), reinterpret_cast<int8_t*>(to), [&](float value) {
      const float steps = scale > 0.0f ? std::nearbyint(value / scale) : 0.0f;
      return static_cast<int8_t>(std::clamp(steps, -127.0f, 127.0f));
    });
    scales_.push_back(scale);
  }
  ++count_;
}

void ItemRows::append(const ItemRows& from, int64_t row) {
  const std::byte* const data = from.at(row);
  bytes_.insert(bytes_.end(), data, data + row_bytes());
  if (type_ == DType::kInt8) scales_.push_back(from.scales_[static_cast<size_t>(row)]);
  ++count_;
}

void ItemRows::reserve(int64_t rows) {
  bytes_.reserve(static_cast<size_t>(rows * row_bytes()));
  if (type_ == DType::kInt8) scales_.reserve(static_cast<size_t>(rows));
}

void ItemRows::read(int64_t row, float* to) const {
  const float scale = type_ == DType::kInt8 ? scales_[static_cast<size_t>(row)] : 1.0f;
  with_elements(type_, at(row), scale, [&](const auto& element) {
    for (int64_t k = 0; k < dim_; ++k) to[k] = element(k);
  });
}

float ItemRows::score(const float* query, int64_t row) const {
  const float scale = type_ == DType::kInt8 ? scales_[static_cast<size_t>(row)] : 1.0f;
  return with_elements(type_, at(row), scale, [&](const auto& element) {
    float sum = 0.0f;
    for (int64_t k = 0; k < dim_; ++k) sum = std::fma(query[k], element(k), sum);
    return sum;
  });
}

void ItemRows::assign(HostVector<std::byte> bytes, HostVector<float> scales) {
  count_ = static_cast<int64_t>(bytes.size()) / row_bytes();
  bytes_ = std::move(bytes);
  scales_ = std::move(scales);
}

}  // namespace emblem
