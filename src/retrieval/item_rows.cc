#include "retrieval/item_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Calls use(element) with a function that returns element k of a row as a float.
template <class Use>
auto with_element(DType type, Use&& use) {
  switch (type) {
    case DType::kF32:
      return use([](const StoredRow& row, int64_t k) {
        return reinterpret_cast<const float*>(row.data)[k];
      });
    case DType::kF16:
      return use([](const StoredRow& row, int64_t k) {
        return reinterpret_cast<const F16*>(row.data)[k].to_float();
      });
    case DType::kBf16:
      return use([](const StoredRow& row, int64_t k) {
        return reinterpret_cast<const Bf16*>(row.data)[k].to_float();
      });
    case DType::kInt8:
      break;
  }
  return use([](const StoredRow& row, int64_t k) {
    return row.scale * static_cast<float>(reinterpret_cast<const int8_t*>(row.data)[k]);
  });
}

// Each sum is in the order of the elements. Those of several rows do not wait for each other.
template <size_t Rows, class Element>
void score_together(std::span<const float> query, const StoredRow* rows, const Element& element,
                    float* scores) {
  float sums[Rows] = {};
  for (size_t k = 0; k < query.size(); ++k)
    for (size_t r = 0; r < Rows; ++r)
      sums[r] = std::fma(query[k], element(rows[r], static_cast<int64_t>(k)), sums[r]);
  std::copy_n(sums, Rows, scores);
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

void check_and_normalize(std::span<float> vector, Similarity similarity, const std::string& whose) {
  const double length = length_of(vector);
  EMBLEM_REQUIRE(std::isfinite(length), "the vector of ", whose,
                 " contains NaN or infinite elements");
  EMBLEM_REQUIRE(length <= kLongestVector, "the vector of ", whose, " is of length ", length,
                 "; at most ", kLongestVector, " is possible");
  if (similarity != Similarity::kCosine) return;
  EMBLEM_REQUIRE(length > 0.0, "the vector of ", whose, " is all zeros, which has no cosine");
  normalize(vector);
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

StoredRow ItemRows::stored(int64_t row) const {
  return {at(row), type_ == DType::kInt8 ? scales_[static_cast<size_t>(row)] : 1.0f};
}

void ItemRows::read(int64_t row, float* to) const {
  const StoredRow from = stored(row);
  with_element(type_, [&](const auto& element) {
    for (int64_t k = 0; k < dim_; ++k) to[k] = element(from, k);
  });
}

float ItemRows::score(const float* query, int64_t row) const {
  const StoredRow of = stored(row);
  float score = 0.0f;
  score_rows(type_, {query, static_cast<size_t>(dim_)}, {&of, 1}, &score);
  return score;
}

void score_rows(DType type, std::span<const float> query, std::span<const StoredRow> rows,
                float* scores) {
  constexpr size_t kTogether = 8;
  with_element(type, [&](const auto& element) {
    size_t at = 0;
    for (; at + kTogether <= rows.size(); at += kTogether)
      score_together<kTogether>(query, rows.data() + at, element, scores + at);
    for (; at < rows.size(); ++at) score_together<1>(query, rows.data() + at, element, scores + at);
  });
}

void ItemRows::assign(HostVector<std::byte> bytes, HostVector<float> scales) {
  count_ = static_cast<int64_t>(bytes.size()) / row_bytes();
  bytes_ = std::move(bytes);
  scales_ = std::move(scales);
}

}  // namespace emblem
