#include <algorithm>
#include <cstring>

#include "core/memory/prefetch.h"
#include "core/memory/row_format.h"
#include "core/threads/thread_pool.h"
#include "embedding/cpu/gather_pool.h"

namespace emblem::cpu {
namespace {

constexpr int64_t kLinesAhead = 48;  // prefetch distance in cache lines of rows

enum class Source { kKeys, kNumbers, kStored, kAddressOfNumber };  // how rows are given

// The address of key i's row, or null.
template <Source kSource>
const char* row_of(const GatherPool& op, int64_t i) {
  if constexpr (kSource == Source::kStored) {
    return reinterpret_cast<const char*>(op.stored_rows[i]);
  } else if constexpr (kSource == Source::kAddressOfNumber) {
    return reinterpret_cast<const char*>(op.row_addresses[op.row_numbers[i]]);
  } else if constexpr (kSource == Source::kNumbers) {
    return op.row_numbers[i] == kNoRow ? nullptr : op.rows.row(op.row_numbers[i]);
  } else {
    return op.rows.row(static_cast<uint64_t>(op.keys[i]));
  }
}

struct Prefetch {
  int64_t distance;  // in keys
  int64_t bytes;     // size of a row

  explicit Prefetch(const RowsRef& rows) {
    bytes = std::min<int64_t>(RowFormat{rows.dim, rows.dtype}.bytes(), 16 * kCacheLine);
    distance = std::max<int64_t>(2, kLinesAhead / ((bytes + kCacheLine - 1) / kCacheLine));
  }
  void operator()(const char* row) const {
    if (row != nullptr) prefetch(row, bytes);
  }
};

void copy_weights(const float* __restrict from, float* __restrict to, int64_t dim) {
  int64_t d = 0;
  for (; d + 16 <= dim; d += 16) std::memcpy(to + d, from + d, 64);
  for (; d < dim; ++d) to[d] = from[d];
}

template <class W>
void copy_weights(const W* __restrict from, float* __restrict to, int64_t dim) {
  for (int64_t d = 0; d < dim; ++d) to[d] = load_weight(from + d);
}

void copy_weights(const Int8Row* row, float* __restrict to, int64_t dim) {
  const Int8Row weights(reinterpret_cast<const std::byte*>(row));
  for (int64_t d = 0; d < dim; ++d) to[d] = weights[d];
}

void draw(const GatherPool& op, int64_t i, float weight, float* sum) {
  for (int64_t d = 0; d < op.rows.dim; ++d) {
    sum[d] += weight * op.absent(op.seed, static_cast<uint64_t>(op.keys[i]), d);
  }
}

template <class W, Source kSource>
void copy_rows(const GatherPool& op, int64_t begin, int64_t end) {
  const Prefetch prefetch(op.rows);
  const int64_t dim = op.rows.dim;
  for (int64_t i = begin; i < std::min(end, begin + prefetch.distance); ++i) {
    prefetch(row_of<kSource>(op, i));
  }
  for (int64_t i = begin; i < end; ++i) {
    if (i + prefetch.distance < end) prefetch(row_of<kSource>(op, i + prefetch.distance));
    const char* row = row_of<kSource>(op, i);
    float* out = op.out + i * op.out_stride;
    if (row != nullptr) {
      copy_weights(reinterpret_cast<const W*>(row), out, dim);
    } else {
      std::fill_n(out, dim, 0.0f);
      draw(op, i, 1.0f, out);
    }
  }
}

template <class W>
void add_weights(const W* __restrict from, float weight, float* __restrict sum, int64_t dim) {
  for (int64_t d = 0; d < dim; ++d) sum[d] += weight * load_weight(from + d);
}

void add_weights(const Int8Row* row, float weight, float* __restrict sum, int64_t dim) {
  const Int8Row weights(reinterpret_cast<const std::byte*>(row));
  for (int64_t d = 0; d < dim; ++d) sum[d] += weight * weights[d];
}

template <class W, Source kSource>
void pool_bags(const GatherPool& op, int64_t begin, int64_t end) {
  const Prefetch prefetch(op.rows);
  const int64_t dim = op.rows.dim;
  const auto first_key = [&](int64_t bag) { return op.offsets != nullptr ? op.offsets[bag] : bag; };
  const int64_t last = first_key(end);
  for (int64_t bag = begin; bag < end; ++bag) {
    float* sum = op.out + bag * op.out_stride;
    std::fill_n(sum, dim, 0.0f);
    float total = 0.0f;
    for (int64_t i = first_key(bag); i < first_key(bag + 1); ++i) {
      if (i + prefetch.distance < last) prefetch(row_of<kSource>(op, i + prefetch.distance));
      const float weight = op.weights != nullptr ? op.weights[i] : 1.0f;
      const char* row = row_of<kSource>(op, i);
      if (row != nullptr)
        add_weights(reinterpret_cast<const W*>(row), weight, sum, dim);
      else
        draw(op, i, weight, sum);
      total += weight;
    }
    if (op.pooling == Pooling::kSum) continue;
    const float factor = total != 0.0f ? 1.0f / total : 0.0f;
    for (int64_t d = 0; d < dim; ++d) sum[d] *= factor;
  }
}

template <class W, Source kSource>
void gather(const GatherPool& op, int64_t begin, int64_t end) {
  if (op.offsets == nullptr && op.weights == nullptr)
    copy_rows<W, kSource>(op, begin, end);
  else
    pool_bags<W, kSource>(op, begin, end);
}

}  // namespace

void gather_pool(const GatherPool& op, int64_t begin, int64_t end) {
  if (op.row_addresses != nullptr && op.row_numbers != nullptr)
    return gather<float, Source::kAddressOfNumber>(op, begin, end);
  if (op.stored_rows != nullptr && op.rows.dtype == DType::kInt8)
    return gather<Int8Row, Source::kStored>(op, begin, end);
  with_weight_type(op.rows.dtype, [&](auto type) {
    using W = decltype(type);
    if (op.stored_rows != nullptr)
      gather<W, Source::kStored>(op, begin, end);
    else if (op.row_numbers != nullptr)
      gather<W, Source::kNumbers>(op, begin, end);
    else
      gather<W, Source::kKeys>(op, begin, end);
  });
}

}  // namespace emblem::cpu

namespace emblem {

void gather_pool(const Context& context, const GatherPool& op) {
  EMBLEM_REQUIRE(op.rows.dim > 0, "gather_pool: rows have dimension ", op.rows.dim);
  EMBLEM_REQUIRE(op.out_stride >= op.rows.dim, "gather_pool: bags are ", op.out_stride,
                 " floats apart in the output, but a row has ", op.rows.dim);
  parallel_for(context, op.bags, 256,
               [&](int64_t begin, int64_t end) { cpu::gather_pool(op, begin, end); });
}

}  // namespace emblem
