#include "shard/row_exchange.h"

#include <cstring>

namespace emblem {
namespace {

constexpr int64_t kSections = 3;  // before the floats, floats, after them

// Where the sections of a rank begin, and their end.
int64_t section_begin(const Messages& messages, BlockRange floats, int rank, int64_t section) {
  const int64_t blocks[] = {0, floats.first, floats.last, messages.items()};
  return messages.begin(rank, blocks[section]);
}

int64_t section_bytes(const Messages& messages, BlockRange floats, int rank, int64_t section) {
  return section_begin(messages, floats, rank, section + 1) -
         section_begin(messages, floats, rank, section);
}

template <class Half>
void to_half(const float* from, int64_t count, char* to) {
  auto* halves = reinterpret_cast<Half*>(to);
  for (int64_t i = 0; i < count; ++i) halves[i] = Half::from(from[i]);
}

template <class Half>
void to_float(const char* from, int64_t count, float* to) {
  const auto* halves = reinterpret_cast<const Half*>(from);
  for (int64_t i = 0; i < count; ++i) to[i] = halves[i].to_float();
}

void copy(char* to, const char* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

}  // namespace

void RowExchange::operator()(const Context& context, Messages& from, BlockRange floats_from,
                             Messages& to, BlockRange floats_to) {
  const int self = ranks_.rank();
  if (precision_ == DType::kF32)
    return ranks_.exchange(context, from.pieces(self), to.pieces(self));
  const auto lay_out = [&](const Messages& like, BlockRange floats, Messages& narrow) {
    narrow.lay_out(ranks_.size(), kSections, [&](int rank, int64_t section) {
      const int64_t bytes = section_bytes(like, floats, rank, section);
      return rank == self ? 0 : section == 1 ? bytes / 2 : bytes;
    });
  };
  lay_out(from, floats_from, sent_);
  lay_out(to, floats_to, received_);
  narrow(from, floats_from);
  ranks_.exchange(context, sent_.pieces(self), received_.pieces(self));
  widen(to, floats_to);
}

void RowExchange::narrow(Messages& from, BlockRange floats) {
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    for (int64_t section = 0; rank != ranks_.rank() && section < kSections; ++section) {
      const int64_t bytes = section_bytes(from, floats, rank, section);
      const char* data = from.data() + section_begin(from, floats, rank, section);
      char* to = sent_.at<char>(rank, section);
      if (section != 1)
        copy(to, data, bytes);
      else if (precision_ == DType::kF16)
        to_half<F16>(reinterpret_cast<const float*>(data), bytes / 4, to);
      else
        to_half<Bf16>(reinterpret_cast<const float*>(data), bytes / 4, to);
    }
  }
}

void RowExchange::widen(Messages& to, BlockRange floats) {
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    for (int64_t section = 0; rank != ranks_.rank() && section < kSections; ++section) {
      const int64_t bytes = section_bytes(to, floats, rank, section);
      char* data = to.data() + section_begin(to, floats, rank, section);
      const char* from = received_.at<char>(rank, section);
      if (section != 1)
        copy(data, from, bytes);
      else if (precision_ == DType::kF16)
        to_float<F16>(from, bytes / 4, reinterpret_cast<float*>(data));
      else
        to_float<Bf16>(from, bytes / 4, reinterpret_cast<float*>(data));
    }
  }
}

}  // namespace emblem
