// How a RequesterPooled is made.
#include <algorithm>

#include "core/device/cuda_check.h"
#include "core/memory/make_room.h"
#include "shard/cuda/requester_pooled.cuh"
#include "shard/host_groups.h"

namespace emblem::cuda {

RequesterPooled::RequesterPooled(const Context& context, std::span<const TableSlice> tables,
                                 std::span<const PartFeature> features, int64_t width,
                                 const ShardRanks& ranks, const LookupSettings& settings, Asks asks)
    : tables_(tables.begin(), tables.end()),
      ranks_(ranks),
      asks_(asks),
      placed_(settings.placed),
      features_(features.size()),
      width_(width),
      // A relay's answer is an exchange of its own, which cannot be inside the loan of another.
      uses_peer_memory_(ranks.host_dedup == HostDedup::kNone &&
                        ranks.device->can_use_peer_memory(context)),
      answer_type_(ranks.precision),
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
  // Requesting ranks count them.
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
    auto lookup = std::make_unique<DeviceLookup>(context, features, of_local);
    lookup->count_places_in(ranks_.precision);
    local.lookup = std::move(lookup);
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
  rows_of_rank_.resize(static_cast<size_t>(ranks));
  m.requester = {.layout = &m.layout,
                 .shapes = &m.shapes,
                 .sums = settings.sums,
                 .dedup = settings.dedup,
                 .ranks = ranks,
                 .tables = m.arriving_there.data(),
                 .owners = m.owners.data(),
                 .feature_counts = m.feature_counts.data()};
}

}  // namespace emblem::cuda
