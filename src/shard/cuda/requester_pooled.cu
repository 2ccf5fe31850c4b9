#include "shard/cuda/requester_pooled.h"

#include <algorithm>
#include <utility>

#include "core/cuda_check.h"
#include "core/make_room.h"
#include "core/pinned.h"
#include "core/stream.h"
#include "embedding/cuda/device_batch.cuh"
#include "embedding/cuda/device_lookup.h"
#include "embedding/cuda/device_table.h"
#include "embedding/cuda/lookup_scratch.cuh"
#include "shard/cuda/device_requests.h"
#include "shard/cuda/lay_requests.h"
#include "shard/host_groups.h"

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

// The distinct keys of a batch, by slot.
struct RequesterPooled::Routed {
  std::vector<DeviceRequests> requests;
  Buffer<uint32_t> counts;  // [slots, ranks, tables]
  std::unique_ptr<PinnedMemory> host_counts;
  Event done;
  std::vector<FeatureKeys> features;
  bool is_ahead = false;  // of the next training pass
};

struct RequesterPooled::Memory {
  BatchLayout layout;
  std::vector<RowShape> shapes;
  Buffer<uint16_t> rank_of_part;
  Buffer<OwnersRef> owners;
  Buffer<TableClocks> clocks;
  std::vector<DeviceTableRef> arriving;  // rows as they come, as tables
  Buffer<DeviceTableRef> arriving_there;
  Buffer<FeatureCounts> feature_counts;
  Buffer<uint8_t> sends_counts, can_miss;
  Buffer<HeldRef> held;
  RequesterRef requester;
  Routed routed[2];      // of the current batch, and of the next
  Stream routing;        // of the next
  Event routing_begins;  // once the main stream is here

  Buffer<ItemPlace> asked_items;
  Buffer<RequestedItem> requested_items;
  LayRequests lay{};
  Buffer<char> asked_keys, requested_keys;
  Buffer<char> rows;  // asked, then requested
  Buffer<int64_t> local_keys;
  Buffer<uint32_t> places;
  Buffer<int32_t> local_counts;
  Buffer<uint8_t> absent;
};

RequesterPooled::RequesterPooled(const Context& context, std::span<const TableSlice> tables,
                                 std::span<const PartFeature> features, int64_t width,
                                 const ShardRanks& ranks, const LookupSettings& settings, Asks asks)
    : tables_(tables.begin(), tables.end()),
      ranks_(ranks),
      asks_(asks),
      placed_(settings.placed),
      features_(features.size()),
      width_(width),
      memory_(std::make_unique<Memory>()) {
  for (const TableSlice& table : tables_) {
    message_tables_.push_back({.dim = table.settings.dim,
                               .replicated = table.shards.replicated,
                               .sends_counts = counts_matter(table.settings),
                               .can_miss = table.settings.kind == TableKind::kDynamic});
    any_counts_ |= message_tables_.back().sends_counts;
    any_missing_ |= message_tables_.back().can_miss;
  }
  make_locals(context, settings);
  make_requester(context, features, settings);
}

RequesterPooled::~RequesterPooled() { cudaStreamSynchronize(memory_->routing.get()); }

namespace {

// What a rank fetches from other hosts for the ranks of its own, and what they ask of its tables.
class FetchedRows : public Lookup {
 public:
  explicit FetchedRows(std::unique_ptr<RequesterPooled> inner) : inner_(std::move(inner)) {}

  int64_t width() const override { return 0; }
  void forward(const Context& context, std::span<const FeatureKeys> features, Phase phase,
               AnyView out) override {
    inner_->forward(context, features, phase, out);
  }
  double squared_gradient_norm(const Context&, ConstAnyView) override {
    throw Error(ErrorCode::kUnsupported, "the norm of a rank's rows is not that of all");
  }
  void add_squared_gradient_norm(const Context& context, ConstAnyView gradients,
                                 ExactSum& sum) override {
    inner_->add_squared_gradient_norm(context, gradients, sum);
  }
  void backward(const Context& context, ConstAnyView gradients, float scale, float learning_rate,
                int64_t step) override {
    inner_->backward(context, gradients, {scale, learning_rate, step});
  }
  void check(const Context& context) override { inner_->check(context); }
  // Those that ask count.
  std::vector<LookupCounts> take_counts(const Context&) override { return {}; }

 private:
  std::unique_ptr<RequesterPooled> inner_;
};

}  // namespace

void RequesterPooled::make_fetching(const Context& context, const LookupSettings& settings) {
  Local local{.tables = {}, .replicated = false, .lookup = nullptr, .keys = {}};
  std::vector<TableSlice> split;
  std::vector<PartFeature> features;
  for (size_t t = 0; t < tables_.size(); ++t) {
    if (tables_[t].shards.replicated) continue;
    features.push_back({.table = split.size()});
    split.push_back(tables_[t]);
    local.tables.push_back(t);
  }
  if (split.empty()) return;
  ShardRanks ranks = ranks_;
  ranks.slots = 1;
  LookupSettings of_inner = settings;
  of_inner.placed = true;
  of_inner.dedup = true;
  local.lookup = std::make_unique<FetchedRows>(
      std::make_unique<RequesterPooled>(context, split, features, 0, ranks, of_inner));
  local.keys.resize(split.size());
  locals_.push_back(std::move(local));
}

std::vector<uint16_t> RequesterPooled::asked_instead() const {
  const int self = ranks_.host->rank();
  const HostGroups groups(ranks_.host->hosts(), self);
  std::vector<uint16_t> asked;
  for (int rank = 0; rank < ranks_.host->size(); ++rank) {
    const bool is_asked = asks_ == Asks::kHolders || groups.is_near(rank);
    asked.push_back(
        static_cast<uint16_t>(is_asked ? rank : groups.relay(groups.host_of(self), rank)));
  }
  return asked;
}

void RequesterPooled::make_locals(const Context& context, const LookupSettings& settings) {
  for (const bool replicated : {false, true}) {
    if (!replicated && asks_ == Asks::kRelays) {
      make_fetching(context, settings);
      continue;
    }
    Local local{.tables = {}, .replicated = replicated, .lookup = nullptr, .keys = {}};
    std::vector<LookupFeature> features;
    for (size_t t = 0; t < tables_.size(); ++t) {
      if (!tables_[t].is_local || tables_[t].shards.replicated != replicated) continue;
      local.tables.push_back(t);
      features.push_back({tables_[t].local, Pooling::kSum});
    }
    if (features.empty()) continue;
    LookupSettings of_local = settings;
    of_local.placed = true;
    if (replicated) of_local.sums = Sums::kDeterministic;  // or copies would drift apart
    local.lookup = std::make_unique<DeviceLookup>(context, features, of_local);
    local.keys.resize(features.size());
    locals_.push_back(std::move(local));
  }
}

void RequesterPooled::make_requester(const Context& context, std::span<const PartFeature> features,
                                     const LookupSettings& settings) {
  Memory& m = *memory_;
  const int ranks = ranks_.host->size(), self = ranks_.host->rank();

  // Features whose rows have one shape are a class.
  std::vector<LaidFeature> laid;
  std::vector<RowShape> shape_of_table(tables_.size(), RowShape::kUpTo16);
  for (const PartFeature& feature : features) {
    const TableSettings& table = tables_[feature.table].settings;
    const bool in_fours =
        table.dim % 4 == 0 && (placed_ || (feature.column % 4 == 0 && width_ % 4 == 0));
    const RowShape shape = shape_of(table.name, table.dim, in_fours);
    shape_of_table[feature.table] = std::max(shape_of_table[feature.table], shape);
    laid.push_back({feature.pooling, feature.column, static_cast<int>(feature.table), 0});
  }
  for (LaidFeature& feature : laid) {
    const RowShape shape = shape_of_table[static_cast<size_t>(feature.table)];
    const auto found = std::find(m.shapes.begin(), m.shapes.end(), shape);
    feature.cls = static_cast<int>(found - m.shapes.begin());
    if (found == m.shapes.end()) m.shapes.push_back(shape);
  }
  m.layout = BatchLayout(std::move(laid), static_cast<int>(tables_.size()),
                         static_cast<int>(m.shapes.size()), width_);

  m.clocks = zeros<TableClocks>(context, static_cast<int64_t>(tables_.size()));
  const std::vector<uint16_t> asked = asked_instead();
  std::vector<uint16_t> rank_of_part;
  std::vector<uint8_t> sends_counts, can_miss;
  std::vector<HeldRef> held;
  for (size_t t = 0; t < tables_.size(); ++t) {
    const TableSettings& settings_of_table = tables_[t].settings;
    DeviceTableRef& arriving = m.arriving.emplace_back();
    arriving.clocks = m.clocks.data() + t;
    arriving.errors = static_cast<DeviceTable*>(tables_[t].local)->errors();
    arriving.stride = size_of(ranks_.precision);
    arriving.dtype = ranks_.precision;
    arriving.dim = static_cast<int32_t>(settings_of_table.dim);
    for (int32_t part = 0; part < kParts && !tables_[t].shards.replicated; ++part) {
      const std::vector<PartRange>& of_ranks = tables_[t].shards.held;
      const auto holder =
          std::find_if(of_ranks.begin(), of_ranks.end(),
                       [&](const PartRange& range) { return range.contains(part); });
      rank_of_part.push_back(asked[static_cast<size_t>(holder - of_ranks.begin())]);
    }
    sends_counts.push_back(message_tables_[t].sends_counts);
    can_miss.push_back(message_tables_[t].can_miss);
    held.push_back({static_cast<int32_t>(settings_of_table.dim),
                    settings_of_table.kind == TableKind::kStatic, message_tables_[t].sends_counts,
                    message_tables_[t].can_miss,
                    // A relay passes keys on as they are.
                    asks_ == Asks::kRelays ? PartRange{} : tables_[t].shards.held_by(self)});
  }
  m.rank_of_part = Buffer<uint16_t>::from(context, rank_of_part);
  std::vector<OwnersRef> owners;
  const uint16_t* next = m.rank_of_part.data();
  for (const TableSlice& table : tables_) {
    owners.push_back({table.shards.replicated ? nullptr : next, table.settings.capacity,
                      static_cast<uint16_t>(self), table.settings.kind == TableKind::kStatic});
    if (!table.shards.replicated) next += kParts;
  }
  m.owners = Buffer<OwnersRef>::from(context, owners);
  m.arriving_there = Buffer<DeviceTableRef>::from(context, m.arriving);
  m.feature_counts = zeros<FeatureCounts>(context, static_cast<int64_t>(features.size()));
  m.sends_counts = Buffer<uint8_t>::from(context, sends_counts);
  m.can_miss = Buffer<uint8_t>::from(context, can_miss);
  m.held = Buffer<HeldRef>::from(context, held);
  const auto counts = ranks_.slots * ranks * static_cast<int64_t>(tables_.size());
  for (Routed& routed : m.routed) {
    routed.requests.resize(static_cast<size_t>(ranks_.slots));
    routed.counts = Buffer<uint32_t>(Device::kCuda, counts);
    routed.host_counts =
        std::make_unique<PinnedMemory>(static_cast<size_t>(counts) * sizeof(uint32_t));
  }
  requested_counts_.resize(static_cast<size_t>(counts));
  m.requester = {.layout = &m.layout,
                 .shapes = &m.shapes,
                 .sums = settings.sums,
                 .dedup = settings.dedup,
                 .precision = ranks_.precision,
                 .ranks = ranks,
                 .tables = m.arriving_there.data(),
                 .owners = m.owners.data(),
                 .feature_counts = m.feature_counts.data()};
}

// ---- forward ----

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
}

// The keys of this batch, which may have been routed ahead.
void RequesterPooled::take_routed(const Context& context, std::span<const FeatureKeys> keys) {
  Memory& m = *memory_;
  Routed& ahead = m.routed[1 - current_];
  if (phase_ == Phase::kTrain && ahead.is_ahead) {
    ahead.is_ahead = false;
    ahead.done.make_wait(context.stream);  // its memory may be used again
    if (are_same(ahead.features, keys)) {
      current_ = 1 - current_;
      return;
    }
  }
  route(context, keys, m.routed[current_]);
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

void RequesterPooled::exchange_sizes() {
  const int ranks = ranks_.host->size(), self = ranks_.host->rank();
  memory_->routed[current_].done.synchronize();
  const size_t items = static_cast<size_t>(ranks_.slots) * tables_.size();
  std::vector<int32_t> sizes;
  for (int rank = 0; rank < ranks; ++rank)
    for (int64_t slot = 0; slot < ranks_.slots; ++slot)
      for (size_t t = 0; t < tables_.size(); ++t)
        sizes.push_back(static_cast<int32_t>(asked(rank, slot, t)));
  std::vector<Piece> send, receive;
  for (size_t rank = 0; rank < static_cast<size_t>(ranks); ++rank) {
    send.push_back({sizes.data() + rank * items, items * sizeof(int32_t)});
    receive.push_back({requested_counts_.data() + rank * items, items * sizeof(int32_t)});
  }
  ranks_.host->exchange(Context{}, send, receive);

  const MessageSettings settings{.ranks = ranks,
                                 .self = self,
                                 .slots = ranks_.slots,
                                 .element_bytes = size_of(ranks_.precision),
                                 .with_counts = any_counts_ && phase_ == Phase::kTrain};
  asked_.lay_out(message_tables_, settings,
                 [&](int rank, int64_t slot, size_t t) { return asked(rank, slot, t); });
  requested_.lay_out(
      message_tables_, settings,
      [&](int rank, int64_t slot, size_t t) {
        const auto item = static_cast<size_t>(rank * ranks_.slots + slot);
        return requested_counts_[item * tables_.size() + t];
      },
      &asked_);
}

void RequesterPooled::exchange_keys(const Context& context) {
  Memory& m = *memory_;
  make_room(context, m.asked_keys, asked_.key_bytes());
  make_room(context, m.requested_keys, requested_.key_bytes());
  if (m.rows.size() < requested_.rows_end()) {
    make_room(context, m.rows, requested_.rows_end());
    for (DeviceTableRef& table : m.arriving) table.rows = m.rows.data();
    upload(context, m.arriving, m.arriving_there);
  }
  upload(context, asked_.items(), m.asked_items);
  const auto tables = static_cast<int64_t>(tables_.size());
  const bool with_counts = any_counts_ && phase_ == Phase::kTrain;
  for (size_t s = 0; s < shards_.size(); ++s)
    m.routed[current_].requests[s].write(
        context, {.items = m.asked_items.data() + static_cast<int64_t>(s) * tables,
                  .rank_stride = ranks_.slots * tables,
                  .keys = reinterpret_cast<int64_t*>(m.asked_keys.data()),
                  .counts = with_counts ? reinterpret_cast<int32_t*>(m.asked_keys.data()) : nullptr,
                  .sends_counts = m.sends_counts.data()});
  copy_to_others(context, m.asked_keys.data(), asked_.replicated_keys(), ranks_.host->rank());
  copy_to_others(context, m.asked_keys.data(), asked_.replicated_counts(), ranks_.host->rank());
  ranks_.device->exchange(context, pieces_of(m.asked_keys.data(), asked_.keys()),
                          pieces_of(m.requested_keys.data(), requested_.keys()));
}

// The places of rows, and of their gradients, are in it.
AnyView RequesterPooled::rows() const {
  return {memory_->rows.data(), requested_.rows_end() / size_of(ranks_.precision), 1,
          ranks_.precision, Device::kCuda};
}

// The rows that are here, for all ranks.
void RequesterPooled::look_up(const Context& context) {
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
        items.push_back({place, first, static_cast<uint32_t>(next[t]), static_cast<int32_t>(t),
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
    local.lookup->forward(context, local.keys, phase_, rows());
  }
}

void RequesterPooled::exchange_rows(const Context& context) {
  Memory& m = *memory_;
  if (any_missing_)
    lay_flags(context, m.lay, m.absent.data(), reinterpret_cast<uint8_t*>(m.rows.data()));
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
    requests.expand(context, phase_ == Phase::kTrain,
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
  gradients_exchanged_ = false;
  take_shards(features);
  take_routed(context, features);
  exchange_sizes();
  exchange_keys(context);
  look_up(context);
  exchange_rows(context);
  expand(context, out);
}

// ---- backward ----

void RequesterPooled::exchange_gradients(const Context& context, ConstAnyView gradients) {
  if (std::exchange(gradients_exchanged_, true)) return;
  Memory& m = *memory_;
  for (size_t s = 0; s < shards_.size(); ++s) {
    const Shard& shard = shards_[s];
    const char* from = static_cast<const char*>(gradients.data) +
                       shard.first_bag * width_ * size_of(gradients.dtype);
    m.routed[current_].requests[s].sum_by_key(
        context, {from, shard.bags, width_, gradients.dtype, Device::kCuda});
  }
  copy_to_others(context, m.rows.data(), asked_.replicated_rows(), ranks_.host->rank());
  ranks_.device->exchange(context, pieces_of(m.rows.data(), asked_.gradients()),
                          pieces_of(m.rows.data(), requested_.gradients()));
}

void RequesterPooled::add_squared_gradient_norm(const Context& context, ConstAnyView gradients,
                                                ExactSum& sum) {
  exchange_gradients(context, gradients);
  for (const Local& local : locals_) {
    if (local.replicated && ranks_.host->rank() != 0) continue;  // counted once
    local.lookup->add_squared_gradient_norm(context, rows(), sum);
  }
}

void RequesterPooled::backward(const Context& context, ConstAnyView gradients,
                               const StepScalars& scalars) {
  exchange_gradients(context, gradients);
  for (const Local& local : locals_)
    local.lookup->backward(context, rows(), scalars.scale, scalars.learning_rate, scalars.step);
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
