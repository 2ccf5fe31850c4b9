#include <algorithm>
#include <cstring>
#include <utility>

#include "core/device/cuda_check.h"
#include "core/memory/make_room.h"
#include "shard/cuda/requester_pooled.cuh"

namespace emblem::cuda {
namespace {

template <class T>
void upload(const Context& context, const std::vector<T>& from, Buffer<T>& to) {
  make_room(context, to, static_cast<int64_t>(from.size()));
  if (!from.empty())
    ::emblem::detail::copy(context, to.data(), from.data(), from.size() * sizeof(T));
}

std::vector<Piece> pieces_of(char* memory, const std::vector<MessageRange>& ranges) {
  std::vector<Piece> pieces;
  for (const MessageRange& range : ranges)
    pieces.push_back({memory + range.begin, static_cast<size_t>(range.end - range.begin)});
  return pieces;
}

// What this rank has for itself, to all others.
void copy_to_others(const Context& context, char* memory, const std::vector<MessageRange>& ranges,
                    int self) {
  const MessageRange& own = ranges[static_cast<size_t>(self)];
  for (size_t rank = 0; rank < ranges.size(); ++rank)
    if (static_cast<int>(rank) != self && ranges[rank].end > ranges[rank].begin)
      ::emblem::detail::copy(context, memory + ranges[rank].begin, memory + own.begin,
                             static_cast<size_t>(own.end - own.begin));
}

}  // namespace

void RequesterPooled::take_shards(std::span<const FeatureKeys> features) {
  shards_.resize(features.size() / features_);
  int64_t bags = 0;
  for (size_t s = 0; s < shards_.size(); ++s) {
    shards_[s] = {bags, bags_of(features[s * features_])};
    bags += shards_[s].bags;
  }
}

namespace {

bool are_same(std::span<const FeatureKeys> a, std::span<const FeatureKeys> b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [](const FeatureKeys& x, const FeatureKeys& y) {
        return x.keys.data == y.keys.data && x.keys.size() == y.keys.size() &&
               x.offsets.data == y.offsets.data && x.offsets.size() == y.offsets.size() &&
               x.weights.data == y.weights.data;
      });
}

}  // namespace

void RequesterPooled::route(const Context& context, std::span<const FeatureKeys> features,
                            Routed& routed) {
  const Memory& m = *memory_;
  const size_t bytes = routed.host_counts->bytes(), each = features_;
  const int64_t counts_of_slot = routed.counts.size() / ranks_.slots;
  routed.features.assign(features.begin(), features.end());
  cuda_check(cudaMemsetAsync(routed.counts.data(), 0, bytes, context.stream), "zeroing");
  for (size_t s = 0; s < features.size() / each; ++s)
    routed.requests[s].route(context, m.requester, features.subspan(s * each, each),
                             routed.counts.data() + static_cast<int64_t>(s) * counts_of_slot);
  copy_async(context, routed.host_counts->data(), routed.counts.data(), bytes);
  routed.done.record(context.stream);
}

// Routes the keys of the next batch while the GPU is busy with this one, so that the host need not
// wait for them then.
void RequesterPooled::prefetch(const Context& context, std::span<const FeatureKeys> features) {
  Memory& m = *memory_;
  Routed& next = m.routed[1 - current_];
  Context routing = context;
  routing.stream = m.routing.get();
  m.routing_begins.record(context.stream);
  m.routing_begins.make_wait(routing.stream);
  route(routing, features, next);
  next.is_ahead = true;
  ran_since_prefetch_ = false;
}

// The keys of this batch, which may have been routed ahead.
Context RequesterPooled::take_routed(const Context& context, std::span<const FeatureKeys> keys) {
  Memory& m = *memory_;
  Routed& ahead = m.routed[1 - current_];
  const bool ran = std::exchange(ran_since_prefetch_, true);
  if (phase_ == Phase::kTrain && ahead.is_ahead) {
    ahead.is_ahead = false;
    const bool is_this = are_same(ahead.features, keys);
    if (is_this) current_ = 1 - current_;
    if (is_this && !ran && uses_peer_memory_) {
      Context routing = context;
      routing.stream = m.routing.get();
      return routing;
    }
    ahead.done.make_wait(context.stream);  // its memory may be used again
    if (is_this) return context;
  }
  route(context, keys, m.routed[current_]);
  return context;
}

int64_t RequesterPooled::asked(int rank, int64_t slot, size_t table) const {
  const int ranks = ranks_.host->size(), self = ranks_.host->rank();
  // In training every copy of a replicated table is updated.
  const bool everywhere = tables_[table].shards.replicated && phase_ == Phase::kTrain;
  const int holder = everywhere ? self : rank;
  const auto* counts =
      reinterpret_cast<const uint32_t*>(memory_->routed[current_].host_counts->data());
  return counts[static_cast<size_t>(slot * ranks + holder) * tables_.size() + table];
}

void RequesterPooled::make_rows(const Context& context, int64_t bytes) {
  Memory& m = *memory_;
  if (m.rows.size() >= bytes) return;
  make_room(context, m.rows, bytes);
  for (DeviceTableRef& table : m.arriving) table.rows = m.rows.data();
  upload(context, m.arriving, m.arriving_there);
}

namespace {

// What a requester tells an owner that can reach its memory.
struct Wanted {
  char* rows = nullptr;    // where the answers go
  int64_t in_16_bits = 0;  // nothing is lost if they have the type of the output
};

}  // namespace

void RequesterPooled::exchange_sizes(const Context& context, const AnyView& out) {
  const int ranks = ranks_.host->size(), self = ranks_.host->rank();
  memory_->routed[current_].done.synchronize();
  const MessageSettings settings{.ranks = ranks,
                                 .self = self,
                                 .slots = ranks_.slots,
                                 .element_bytes = size_of(ranks_.precision),
                                 .with_counts = any_counts_ && phase_ == Phase::kTrain};
  asked_.lay_out(message_tables_, settings,
                 [&](int rank, int64_t slot, size_t t) { return asked(rank, slot, t); });
  if (uses_peer_memory_) make_rows(context, asked_.rows_end());

  const bool has_pooled = has_bags(memory_->routed[current_].features);
  const size_t items = static_cast<size_t>(ranks_.slots) * tables_.size();
  const size_t words = items + (uses_peer_memory_ ? sizeof(Wanted) / sizeof(int32_t) : 0);
  std::vector<int32_t> sent(words * static_cast<size_t>(ranks)), received(sent.size());
  std::vector<Piece> send, receive;
  for (int rank = 0; rank < ranks; ++rank) {
    const size_t first = static_cast<size_t>(rank) * words;
    int32_t* next = sent.data() + first;
    for (int64_t slot = 0; slot < ranks_.slots; ++slot)
      for (size_t t = 0; t < tables_.size(); ++t)
        *next++ = static_cast<int32_t>(asked(rank, slot, t));
    const Wanted wanted{memory_->rows.data() + asked_.answers()[static_cast<size_t>(rank)].begin,
                        has_pooled ? 0 : 1};
    if (uses_peer_memory_) std::memcpy(next, &wanted, sizeof(wanted));
    send.push_back({sent.data() + first, words * sizeof(int32_t)});
    receive.push_back({received.data() + first, words * sizeof(int32_t)});
  }
  ranks_.host->exchange(Context{}, send, receive);
  bool in_16_bits = uses_peer_memory_ && ranks_.precision == DType::kF32;
  for (size_t rank = 0; uses_peer_memory_ && rank < rows_of_rank_.size(); ++rank) {
    Wanted wanted;
    std::memcpy(&wanted, &received[rank * words + items], sizeof(wanted));
    rows_of_rank_[rank] = wanted.rows;
    in_16_bits &= wanted.in_16_bits != 0;
  }
  answer_type_ = in_16_bits ? out.dtype : ranks_.precision;
  requested_.lay_out(
      message_tables_, settings,
      [&](int rank, int64_t slot, size_t t) {
        return received[static_cast<size_t>(rank) * words +
                        static_cast<size_t>(slot) * tables_.size() + t];
      },
      &asked_);
  if (!uses_peer_memory_) make_rows(context, requested_.rows_end());
}

void RequesterPooled::exchange_keys(const Context& context) {
  Memory& m = *memory_;
  make_room(context, m.asked_keys, asked_.key_bytes());
  make_room(context, m.requested_keys, requested_.key_bytes());
  upload(context, asked_.items(), m.asked_items);
  const auto tables = static_cast<int64_t>(tables_.size());
  const bool with_counts = any_counts_ && phase_ == Phase::kTrain;
  for (size_t s = 0; s < shards_.size(); ++s)
    m.routed[current_].requests[s].write(
        context, phase_,
        {.items = m.asked_items.data() + static_cast<int64_t>(s) * tables,
         .rank_stride = ranks_.slots * tables,
         .keys = reinterpret_cast<int64_t*>(m.asked_keys.data()),
         .counts = with_counts ? reinterpret_cast<int32_t*>(m.asked_keys.data()) : nullptr,
         .sends_counts = m.sends_counts.data()});
  copy_to_others(context, m.asked_keys.data(), asked_.replicated_keys(), ranks_.host->rank());
  copy_to_others(context, m.asked_keys.data(), asked_.replicated_counts(), ranks_.host->rank());
  ranks_.device->exchange(context, pieces_of(m.asked_keys.data(), asked_.keys()),
                          pieces_of(m.requested_keys.data(), requested_.keys()));
}

// The places of rows, and of their gradients, are counted from its begin. Those of requests of
// other ranks are not in it where ranks use peer memory.
AnyView RequesterPooled::rows() const {
  const MessageLayout& last = uses_peer_memory_ ? asked_ : requested_;
  return {memory_->rows.data(), last.rows_end() / size_of(ranks_.precision), 1, ranks_.precision,
          Device::kCuda};
}

// Bytes from where a rank's requests would have their rows here to where that rank has them.
int64_t RequesterPooled::shift_of(int rank) const {
  if (!uses_peer_memory_ || rank == ranks_.host->rank()) return 0;
  const auto r = static_cast<size_t>(rank);
  return rows_of_rank_[r] - (memory_->rows.data() + requested_.answers()[r].begin);
}

// Memory for the answers of each rank, and the gradients for it.
std::vector<Piece> RequesterPooled::rows_of_peers() const {
  std::vector<Piece> pieces;
  for (size_t rank = 0; rank < rows_of_rank_.size(); ++rank) {
    const int64_t begin = asked_.answers()[rank].begin, end = asked_.gradients()[rank].end;
    pieces.push_back({memory_->rows.data() + begin, static_cast<size_t>(end - begin)});
  }
  return pieces;
}

// The requests of all ranks, as keys of the lookups here.
void RequesterPooled::lay_requests(const Context& context) {
  Memory& m = *memory_;
  const int ranks = ranks_.host->size(), self = ranks_.host->rank();
  const bool with_counts = any_counts_ && phase_ == Phase::kTrain;
  std::vector<int64_t> first_of_table(tables_.size() + 1);
  for (size_t t = 0; t < tables_.size(); ++t) {
    first_of_table[t + 1] = first_of_table[t];
    for (int rank = 0; rank < ranks; ++rank)
      for (int64_t slot = 0; slot < ranks_.slots; ++slot)
        first_of_table[t + 1] += requested_.item(rank, slot, t).count;
  }
  // Requests of a table are in the order of (rank, slot).
  std::vector<RequestedItem> items;
  std::vector<int64_t> next = first_of_table;
  uint32_t first = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    for (int64_t slot = 0; slot < ranks_.slots; ++slot) {
      for (size_t t = 0; t < tables_.size(); ++t) {
        const ItemPlace& place = requested_.item(rank, slot, t);
        if (place.count == 0) continue;
        items.push_back({place, place.rows + shift_of(rank) / size_of(ranks_.precision),
                         static_cast<int64_t>(place.flags) + shift_of(rank), first,
                         static_cast<uint32_t>(next[t]), static_cast<int32_t>(t),
                         !tables_[t].shards.replicated || rank == self});
        first += place.count;
        next[t] += place.count;
      }
    }
  }
  upload(context, items, m.requested_items);
  const int64_t total = requested_.total();
  make_room(context, m.local_keys, total);
  make_room(context, m.places, total);
  if (with_counts) make_room(context, m.local_counts, total);
  if (any_missing_) make_room(context, m.absent, total);
  m.lay = {m.requested_items.data(), static_cast<int32_t>(items.size()),
           static_cast<uint32_t>(total), m.held.data()};
  const char* keys = m.requested_keys.data();
  lay_by_table(context, m.lay, reinterpret_cast<const int64_t*>(keys),
               with_counts ? reinterpret_cast<const int32_t*>(keys) : nullptr, m.local_keys.data(),
               m.places.data(), m.local_counts.data());
  for (Local& local : locals_) {
    for (size_t i = 0; i < local.tables.size(); ++i) {
      const size_t t = local.tables[i];
      const int64_t begin = first_of_table[t], count = first_of_table[t + 1] - begin;
      const bool counts = with_counts && message_tables_[t].sends_counts;
      local.keys[i] = {
          .keys = {m.local_keys.data() + begin, count, 1, Device::kCuda},
          .counts = {m.local_counts.data() + begin, counts ? count : 0, 1, Device::kCuda},
          .absent = {m.absent.data() + begin, message_tables_[t].can_miss ? count : 0, 1,
                     Device::kCuda},
          .places = {m.places.data() + begin, count, 1, Device::kCuda}};
    }
  }
}

// The rows that are here, for all ranks.
void RequesterPooled::answer(const Context& context) {
  Memory& m = *memory_;
  AnyView to = rows();
  to.dtype = answer_type_;
  const auto look_up = [&] {
    for (Local& local : locals_) local.lookup->forward(context, local.keys, phase_, to);
    if (any_missing_)
      lay_flags(context, m.lay, m.absent.data(), reinterpret_cast<uint8_t*>(m.rows.data()));
  };
  if (uses_peer_memory_)
    return ranks_.device->use_peer_memory(context, rows_of_peers(), [&](auto) { look_up(); });
  look_up();
  ranks_.device->exchange(context, pieces_of(m.rows.data(), requested_.answers()),
                          pieces_of(m.rows.data(), asked_.answers()));
}

void RequesterPooled::expand(const Context& context, const AnyView& out) {
  Memory& m = *memory_;
  const auto tables = static_cast<int64_t>(tables_.size());
  for (size_t s = 0; s < shards_.size(); ++s) {
    const Shard& shard = shards_[s];
    char* to = static_cast<char*>(out.data) + shard.first_bag * width_ * size_of(out.dtype);
    DeviceRequests& requests = m.routed[current_].requests[s];
    requests.expand(context, phase_, answer_type_,
                    {to, shard.bags, width_, out.dtype, Device::kCuda});
    if (any_missing_ && placed_)
      requests.spread_flags(context, m.asked_items.data() + static_cast<int64_t>(s) * tables,
                            ranks_.slots * tables, reinterpret_cast<const uint8_t*>(m.rows.data()),
                            m.can_miss.data());
    else if (any_missing_)
      requests.count_missing(context, m.asked_items.data() + static_cast<int64_t>(s) * tables,
                             ranks_.slots * tables, reinterpret_cast<const uint8_t*>(m.rows.data()),
                             m.can_miss.data());
  }
}

void RequesterPooled::forward(const Context& context, std::span<const FeatureKeys> features,
                              Phase phase, AnyView out) {
  for (const TableSlice& table : tables_) static_cast<DeviceTable*>(table.local)->check_errors();
  phase_ = phase;
  summed_ = gradients_exchanged_ = false;
  take_shards(features);
  const Context routing = take_routed(context, features);
  exchange_sizes(context, out);
  exchange_keys(routing);
  lay_requests(routing);
  if (routing.stream != context.stream) {
    memory_->laid.record(routing.stream);
    memory_->laid.make_wait(context.stream);
  }
  answer(context);
  expand(context, out);
}

// ---- backward ----

void RequesterPooled::prepare_backward(const Context& context, ConstAnyView gradients) {
  if (std::exchange(summed_, true)) return;
  Memory& m = *memory_;
  for (size_t s = 0; s < shards_.size(); ++s) {
    const Shard& shard = shards_[s];
    const char* from = static_cast<const char*>(gradients.data) +
                       shard.first_bag * width_ * size_of(gradients.dtype);
    m.routed[current_].requests[s].sum_by_key(
        context, {from, shard.bags, width_, gradients.dtype, Device::kCuda});
  }
  copy_to_others(context, m.rows.data(), asked_.replicated_rows(), ranks_.host->rank());
}

template <class Use>
void RequesterPooled::with_sums(const Context& context, ConstAnyView gradients, const Use& use) {
  prepare_backward(context, gradients);
  if (uses_peer_memory_)
    return ranks_.device->use_peer_memory(context, rows_of_peers(), [&](auto) { use(); });
  char* rows = memory_->rows.data();
  if (!std::exchange(gradients_exchanged_, true))
    ranks_.device->exchange(context, pieces_of(rows, asked_.gradients()),
                            pieces_of(rows, requested_.gradients()));
  use();
}

void RequesterPooled::add_squared_gradient_norm(const Context& context, ConstAnyView gradients,
                                                ExactSum& sum) {
  with_sums(context, gradients, [&] {
    for (const Local& local : locals_) {
      if (local.replicated && ranks_.host->rank() != 0) continue;  // counted once
      local.lookup->add_squared_gradient_norm(context, rows(), sum);
    }
  });
}

void RequesterPooled::backward(const Context& context, ConstAnyView gradients,
                               const StepScalars& scalars) {
  with_sums(context, gradients, [&] {
    for (const Local& local : locals_)
      local.lookup->backward(context, rows(), scalars.scale, scalars.learning_rate, scalars.step);
  });
}

// Requests of keys outside a table are errors of the rank that made them, of whatever slice.
void RequesterPooled::check(const Context& context) {
  context.synchronize();
  for (const TableSlice& table : tables_) static_cast<DeviceTable*>(table.local)->check_errors();
  for (const Local& local : locals_) local.lookup->check(context);
}

std::vector<int64_t> RequesterPooled::take_missing(const Context& context) {
  Memory& m = *memory_;
  const std::vector<FeatureCounts> there = m.feature_counts.to_host(context);
  cuda_check(cudaMemsetAsync(m.feature_counts.data(), 0,
                             static_cast<size_t>(m.feature_counts.size()) * sizeof(FeatureCounts),
                             context.stream),
             "zeroing");
  std::vector<int64_t> missing;
  for (const FeatureCounts& counts : there) missing.push_back(static_cast<int64_t>(counts.missing));
  return missing;
}

}  // namespace emblem::cuda
