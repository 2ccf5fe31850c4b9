#include "comm/sum_all.h"

#include <algorithm>
#include <bit>
#include <memory>

namespace emblem {
namespace {

// parts[0] becomes the sum of [first, first + count) of all parts.
template <class T>
void sum_range(std::span<const std::span<T>> parts, size_t first, size_t count) {
  if (parts.size() == 1) return;
  const size_t left = std::bit_floor(parts.size() - 1);
  sum_range(parts.first(left), first, count);
  sum_range(parts.subspan(left), first, count);
  T* const to = parts[0].data() + first;
  const T* const from = parts[left].data() + first;
  for (size_t i = 0; i < count; ++i) to[i] += from[i];
}

template <class T>
void sum_parts(std::span<const std::span<T>> parts) {
  EMBLEM_REQUIRE(!parts.empty(), "a sum of no parts");
  for (const std::span<T>& part : parts)
    EMBLEM_REQUIRE(part.size() == parts[0].size(), "a sum of parts of ", parts[0].size(), " and ",
                   part.size(), " values: equal sizes are required");
  // Block by block, so that partial sums stay in the cache.
  constexpr size_t kBlock = 4096 / sizeof(T);
  for (size_t first = 0; first < parts[0].size(); first += kBlock)
    sum_range(parts, first, std::min(kBlock, parts[0].size() - first));
}

template <class T>
Piece piece_of(std::span<T> values) {
  return {values.data(), values.size_bytes()};
}

// Rank r adds up slice r of all ranks, then the slices are gathered.
template <class T>
void sum_over_ranks(const Context& context, Communicator& ranks, std::span<T> values) {
  EMBLEM_REQUIRE(context.device == Device::kCpu, "sum_all adds values in host memory");
  if (ranks.size() == 1) return ranks.check();
  const auto count = static_cast<size_t>(ranks.size());
  const auto own = static_cast<size_t>(ranks.rank());
  const size_t slice_size = (values.size() + count - 1) / count;
  const auto slice = [&](size_t r) {
    const size_t first = std::min(values.size(), r * slice_size);
    return values.subspan(first, std::min(slice_size, values.size() - first));
  };
  const size_t own_size = slice(own).size();
  const auto received = std::make_unique_for_overwrite<T[]>(own_size * count);
  std::vector<std::span<T>> parts;
  std::vector<Piece> send, receive;
  for (size_t r = 0; r < count; ++r) {
    parts.emplace_back(received.get() + r * own_size, own_size);
    send.push_back(piece_of(slice(r)));
    receive.push_back(piece_of(parts[r]));
  }
  ranks.exchange(context, send, receive);
  sum_parts<T>(parts);
  std::copy(parts[0].begin(), parts[0].end(), slice(own).begin());

  send.assign(count, piece_of(slice(own)));
  for (size_t r = 0; r < count; ++r) receive[r] = piece_of(slice(r));
  send[own] = receive[own] = {};
  ranks.exchange(context, send, receive);
}

}  // namespace

void sum_all(const Context& context, Communicator& ranks, std::span<float> values) {
  sum_over_ranks(context, ranks, values);
}
void sum_all(const Context& context, Communicator& ranks, std::span<double> values) {
  sum_over_ranks(context, ranks, values);
}
void sum_all(const Context& context, Communicator& ranks, std::span<int64_t> values) {
  sum_over_ranks(context, ranks, values);
}

void sum_tree(std::span<const std::span<float>> parts) { sum_parts(parts); }
void sum_tree(std::span<const std::span<double>> parts) { sum_parts(parts); }
void sum_tree(std::span<const std::span<int64_t>> parts) { sum_parts(parts); }

}  // namespace emblem
