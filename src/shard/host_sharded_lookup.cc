#include "shard/host_sharded_lookup.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/sum_all.h"
#include "core/threads/thread_pool.h"
#include "shard/table_slices.h"

namespace emblem {
namespace {

constexpr int64_t kSegments = 512;          // summed per task
constexpr int64_t kBlockBytes = 128 << 10;  // bytes of output per task: stay in cache

int64_t row_bytes(const TableSettings& settings) {
  return settings.dim * static_cast<int64_t>(sizeof(float));
}

int64_t bags_per_task(int64_t width) {
  return std::clamp<int64_t>(kBlockBytes / (width * 4 + 1), 16, 256);
}

int64_t width_of(std::span<const ShardedTable> tables, std::span<const ShardedFeature> features) {
  int64_t width = 0;
  for (const ShardedFeature& feature : features) width += tables[feature.table].settings.dim;
  return width;
}

}  // namespace

HostShardedLookup::HostShardedLookup(std::span<const ShardedTable> tables,
                                     std::span<const ShardedFeature> features,
                                     const ShardRanks& ranks)
    : ranks_(*ranks.host),
      self_(ranks_.rank()),
      slots_(ranks.slots),
      row_exchange_(ranks_, ranks.precision),
      pooling_(ranks_, slots_, ranks.precision),
      sums_by_host_(ranks.host_dedup == HostDedup::kRowsAndSums),
      bag_chunks_(bags_per_task(width_of(tables, features))),
      segment_chunks_(kSegments) {
  std::vector<size_t> first_slices;  // by table, and the end
  for (const ShardedTable& table : tables) {
    first_slices.push_back(tables_.size());
    add_table(table);
  }
  first_slices.push_back(tables_.size());
  for (const ShardedFeature& feature : features) {
    for (size_t t = first_slices.at(feature.table); t < first_slices.at(feature.table + 1); ++t) {
      HeldTable& table = tables_[t];
      size_t pooled = 0;
      if (table.pooled_by >= 0)
        pooled = pooling_.add({table.pooled_by, table.settings.dim, sources_, width_});
      features_.push_back({t, feature.pooling, width_, table.features.size(), sources_, pooled});
      table.features.push_back(features_.size() - 1);
      width_ += table.settings.dim;
    }
    ++sources_;
  }
  counts_.resize(sources_);
  std::vector<LookupFeature> of_items;
  for (int64_t block = 0; block < ranks_.size() * items(); ++block)
    of_items.push_back({table_of(block).local, Pooling::kSum});
  lookup_ = std::make_unique<HostLookup>(of_items);
  for (const Table* local : lookup_->tables()) {
    const auto found = std::find_if(tables_.begin(), tables_.end(),
                                    [&](const HeldTable& table) { return table.local == local; });
    counted_.push_back(!found->replicated || self_ == 0);  // once
  }
  add_owner_units();
  if (ranks.host_dedup != HostDedup::kNone) share_rows_of_hosts(ranks_, ranks.precision);
}

void HostShardedLookup::share_rows_of_hosts(Communicator& ranks, DType precision) {
  std::vector<MessageTable> tables;
  for (const HeldTable& table : tables_)
    tables.push_back({.dim = table.settings.dim,
                      .replicated = table.replicated,
                      .sends_counts = table.sends_counts && sums_by_host_,
                      .can_miss = table.can_miss});
  groups_.emplace(ranks.hosts(), self_);
  relay_ = std::make_unique<HostRelay>(ranks, *groups_, tables, slots_, precision);
  if (!sums_by_host_) answers_ = std::make_unique<HostAnswers>(*groups_, tables, slots_, self_);
}

void HostShardedLookup::add_owner_units() {
  owner_unit_at_.assign(static_cast<size_t>(ranks_.size() * items()), -1);
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    for (int64_t i = 0; i < items(); ++i) {
      if (table_of(i).pooled_by != self_) continue;
      owner_unit_at_[static_cast<size_t>(rank * items() + i)] =
          static_cast<int32_t>(owner_units_.size());
      Unit& unit = owner_units_.emplace_back();
      unit.table = static_cast<size_t>(i) % tables();
      unit.slot = static_cast<size_t>(i) / tables();
      unit.rank = rank;
      unit.is_owner_unit = true;
    }
  }
}

void HostShardedLookup::add_table(const ShardedTable& table) {
  for (const TableSlice& slice : slices_of(table, ranks_.size(), self_))
    tables_.push_back({.settings = slice.settings,
                       .local = slice.local,
                       .replicated = slice.shards.replicated,
                       .sends_counts = counts_matter(slice.settings),
                       .can_miss = slice.settings.kind == TableKind::kDynamic,
                       .owners = KeyOwners(slice.settings, slice.shards, ranks_.size(), self_),
                       .counts_missing = slice.is_first,
                       .pooled_by = slice.pooled_by});
}

// ---- who asks whom for how much ----

int64_t HostShardedLookup::needed(int rank, int64_t item) const {
  const size_t slot = static_cast<size_t>(item) / tables(),
               t = static_cast<size_t>(item) % tables();
  if (slot >= shards_.size()) return 0;
  const TableRequests& requests = shards_[slot].tables[t].requests;
  // In training every copy of a replicated table is updated.
  if (tables_[t].replicated && phase_ == Phase::kTrain) return requests.size();
  return requests.begin(rank + 1) - requests.begin(rank);
}

FeatureKeys HostShardedLookup::needed_keys(int rank, int64_t item) const {
  const int64_t count = needed(rank, item);
  if (count == 0) return {};
  const HeldTable& table = table_of(item);
  const TableRequests& requests = shards_[static_cast<size_t>(item) / tables()]
                                      .tables[static_cast<size_t>(item) % tables()]
                                      .requests;
  const int64_t first = requests.begin(table.replicated ? self_ : rank);
  const bool is_counted = table.sends_counts && phase_ == Phase::kTrain;
  return {.keys = {requests.keys().data() + first, count, 1},
          .counts = {requests.counts().data() + first, is_counted ? count : 0, 1}};
}

int64_t HostShardedLookup::merged(int rank, int64_t item) const {
  if (item >= std::ssize(tables_)) return 0;
  const MergedLists* lists = relay_->merged(rank, static_cast<size_t>(item));
  return lists == nullptr ? 0 : lists->size();
}

int64_t HostShardedLookup::asked(int rank, int64_t item) const {
  return sums_by_host_ && is_shared(rank, item) ? merged(rank, item) : needed(rank, item);
}

int64_t HostShardedLookup::requested(int rank, int64_t item) const {
  return sizes_[static_cast<size_t>(rank * items() + item)];
}

bool HostShardedLookup::answers(int rank, int64_t item) const {
  return rank == self_ || !table_of(item).replicated;
}

const HostShardedLookup::Unit* HostShardedLookup::owner_unit_at(int rank, int64_t item) const {
  const int32_t number = owner_unit_at_[static_cast<size_t>(rank * items() + item)];
  return number < 0 ? nullptr : &owner_units_[static_cast<size_t>(number)];
}

int64_t HostShardedLookup::requested_bytes(int rank, int64_t block, int64_t bytes_of_key) const {
  if (block < items()) {
    if (!is_packed(rank, block)) return requested(rank, block) * bytes_of_key;
    const bool is_first_slot = block < std::ssize(tables_);
    return is_first_slot ? answers_->count(rank, static_cast<size_t>(block)) * bytes_of_key : 0;
  }
  if (rank != self_) return 0;
  const int from = static_cast<int>(block / items()) - 1;
  const int64_t i = block % items();
  if (is_packed(from, i)) return requested(from, i) * bytes_of_key;
  const Unit* unit = owner_unit_at(from, i);
  return unit != nullptr ? unit->requests.size() * bytes_of_key : 0;
}

HostShardedLookup::RowBlock HostShardedLookup::requested_block(int rank, int64_t item) const {
  const bool is_kept = owner_unit_at(rank, item) != nullptr || is_packed(rank, item);
  return is_kept ? RowBlock{self_, kept_block(rank, item)} : RowBlock{rank, item};
}

float* HostShardedLookup::asked_vectors(const Unit& unit, int rank) {
  const int64_t i = item(unit.slot, unit.table);
  if (is_relayed(rank, i)) return relay_->rows(rank, i);
  if (rank != self_) return asked_rows_.at<float>(rank, i);
  return requested_rows_.at<float>(self_, unit.is_owner_unit ? kept_block(unit.rank, i) : i);
}

uint8_t* HostShardedLookup::asked_absent(const Unit& unit, int rank) {
  const int64_t i = item(unit.slot, unit.table);
  if (is_relayed(rank, i)) return relay_->absent(rank, i);
  if (rank != self_) return asked_rows_.at<uint8_t>(rank, items() + i);
  return requested_rows_.at<uint8_t>(
      self_, blocks() + (unit.is_owner_unit ? kept_block(unit.rank, i) : i));
}

// ---- forward ----

void HostShardedLookup::take_shards(std::span<const FeatureKeys> features, AnyView out) {
  const size_t each = sources_;
  EMBLEM_REQUIRE(
      features.size() % each == 0 && static_cast<int64_t>(features.size() / each) <= slots_,
      "lookup: keys of ", features.size(), " features were given, but up to ", slots_,
      " shards have ", each, " each");
  shards_.resize(features.size() / each);
  bags_ = 0;
  for (size_t s = 0; s < shards_.size(); ++s) {
    Shard& shard = shards_[s];
    shard.sources.assign(features.begin() + static_cast<ptrdiff_t>(s * each),
                         features.begin() + static_cast<ptrdiff_t>((s + 1) * each));
    shard.first_bag = bags_;
    shard.bags = bags_of(shard.sources[0]);
    bags_ += shard.bags;
    shard.tables.resize(tables());
    for (const FeatureKeys& keys : shard.sources)
      EMBLEM_REQUIRE(bags_of(keys) == shard.bags,
                     "lookup: the features of a shard have different numbers of bags");
  }
  EMBLEM_REQUIRE(out.rows == bags_ && out.cols == width_, "lookup: output is [", out.rows, ", ",
                 out.cols, "], but the batch needs [", bags_, ", ", width_, "]");
  units_.clear();
  for (size_t s = 0; s < shards_.size(); ++s) {
    for (size_t t = 0; t < tables(); ++t) {
      Unit& unit = shards_[s].tables[t];
      unit.table = t;
      unit.rank = self_;
      unit.slot = s;
      unit.keys.clear();
      for (const size_t f : tables_[t].features)
        if (tables_[t].pooled_by < 0) unit.keys.push_back(shards_[s].sources[features_[f].source]);
      units_.push_back(&unit);
    }
  }
}

// The bags that are pooled here for all ranks.
void HostShardedLookup::take_owner_units(const Context& context) {
  std::vector<OwnerPooling::Shard> shards;
  for (const Shard& shard : shards_) shards.push_back({shard.sources, shard.first_bag});
  pooling_.exchange_keys(context, std::move(shards));
  for (Unit& unit : owner_units_) {
    unit.keys.clear();
    for (const size_t f : tables_[unit.table].features)
      unit.keys.push_back(pooling_.keys(unit.rank, unit.slot, features_[f].pooled));
    units_.push_back(&unit);
  }
}

void HostShardedLookup::make_requests(const Context& context) {
  for_each_unit(context, [&](Unit& unit) {
    std::vector<const FeatureKeys*> features;
    for (const FeatureKeys& keys : unit.keys) features.push_back(&keys);
    slots_pool_.with_slots(
        [&](KeySlots& slots) { unit.requests.make(features, tables_[unit.table].owners, slots); });
  });
}

void HostShardedLookup::exchange_sizes(const Context& context) {
  const auto total = static_cast<size_t>(ranks_.size() * items());
  HostVector<int32_t> mine(total);
  sizes_.resize(total);
  std::vector<Piece> send, receive;
  const size_t bytes = static_cast<size_t>(items()) * sizeof(int32_t);
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    const auto first = static_cast<size_t>(rank * items());
    for (int64_t i = 0; i < items(); ++i)
      mine[first + static_cast<size_t>(i)] = static_cast<int32_t>(asked(rank, i));
    send.push_back({mine.data() + first, bytes});
    receive.push_back({sizes_.data() + first, bytes});
  }
  ranks_.exchange(context, send, receive);
}

void HostShardedLookup::exchange_keys(const Context& context) {
  const auto bytes = [&](int rank, int64_t i, int64_t count) -> int64_t {
    if (rank == self_) return 0;
    if (i < items()) return count * static_cast<int64_t>(sizeof(int64_t));
    const bool counted = phase_ == Phase::kTrain && table_of(i).sends_counts;
    return counted ? count * static_cast<int64_t>(sizeof(int32_t)) : 0;
  };
  asked_keys_.lay_out(ranks_.size(), 2 * items(), [&](int rank, int64_t i) {
    return bytes(rank, i, asked(rank, i % items()));
  });
  requested_keys_.lay_out(ranks_.size(), 2 * items(), [&](int rank, int64_t i) {
    return bytes(rank, i, requested(rank, i % items()));
  });
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    for (int64_t i = 0; rank != self_ && i < items(); ++i) {
      if (asked_keys_.bytes(rank, i) == 0) continue;
      FeatureKeys list = needed_keys(rank, i);
      if (sums_by_host_ && is_shared(rank, i)) {
        const MergedLists& lists = *relay_->merged(rank, static_cast<size_t>(i));
        list = {.keys = {lists.keys().data(), lists.size(), 1},
                .counts = {lists.counts().data(), lists.size(), 1}};
      }
      copy_bytes(asked_keys_.at<char>(rank, i), list.keys.data, asked_keys_.bytes(rank, i));
      copy_bytes(asked_keys_.at<char>(rank, items() + i), list.counts.data,
                 asked_keys_.bytes(rank, items() + i));
    }
  }
  ranks_.exchange(context, asked_keys_.pieces(self_), requested_keys_.pieces(self_));
}

std::vector<FeaturePlace> HostShardedLookup::requested_places() const {
  EMBLEM_REQUIRE(requested_rows_.size() / 4 < int64_t{1} << 32, "lookup: a rank is asked for ",
                 requested_rows_.size(),
                 " bytes of rows in a step, more than 2^34: lower the batch size");
  std::vector<FeaturePlace> places;
  for (int rank = 0; rank < ranks_.size(); ++rank)
    for (int64_t i = 0; i < items(); ++i) {
      const RowBlock at = requested_block(rank, i);
      places.push_back({requested_rows_.begin(at.rank, at.block) / 4, table_of(i).settings.dim});
    }
  return places;
}

// The rows that are here, for all ranks.
void HostShardedLookup::look_up(const Context& context) {
  moving_ = Moving::kRows;
  if (answers_)
    answers_->merge(context, [&](int rank, int64_t i) -> FeatureKeys {
      return {.keys = {requested_keys_.at<int64_t>(rank, i), requested(rank, i), 1}};
    });
  const auto bytes_of_key = [&](int rank, int64_t i, bool is_row) {
    const HeldTable& table = table_of(i);
    if (!answers(rank, i)) return int64_t{0};
    return is_row ? row_bytes(table.settings) : int64_t{table.can_miss};
  };
  asked_rows_.lay_out(ranks_.size(), 2 * items(), [&](int rank, int64_t block) {
    const int64_t i = block % items();
    const int64_t rows = is_relayed(rank, i) ? merged(rank, i) : needed(rank, i);
    return rank == self_ ? 0 : rows * bytes_of_key(rank, i, block < items());
  });
  requested_rows_.lay_out(ranks_.size(), 2 * blocks(), [&](int rank, int64_t block) {
    return requested_bytes(rank, block % blocks(), bytes_of_key(rank, block, block < blocks()));
  });
  std::vector<FeatureKeys> features;
  std::vector<FeaturePlace> places = requested_places();
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    for (int64_t i = 0; i < items(); ++i) {
      const HeldTable& table = table_of(i);
      const bool counts = table.sends_counts && phase_ == Phase::kTrain;
      int64_t count = requested(rank, i);
      const int64_t* keys = requested_keys_.at<int64_t>(rank, i);
      const int32_t* key_counts = requested_keys_.at<int32_t>(rank, items() + i);
      const Unit* here = owner_unit_at(rank, i);
      if (here == nullptr && rank == self_ && count > 0)
        here =
            &shards_[static_cast<size_t>(i) / tables()].tables[static_cast<size_t>(i) % tables()];
      if (here != nullptr) {
        const TableRequests& own = here->requests;
        keys = own.keys().data() + own.begin(self_);
        key_counts = own.counts().data() + own.begin(self_);
        count = own.begin(self_ + 1) - own.begin(self_);
      }
      const RowBlock at = requested_block(rank, i);
      features.push_back({.keys = {keys, count, 1},
                          .counts = {key_counts, counts ? count : 0, 1},
                          .absent = {requested_rows_.at<uint8_t>(at.rank, blocks() + at.block),
                                     requested_rows_.bytes(at.rank, blocks() + at.block), 1}});
      if (!answers(rank, i)) places[static_cast<size_t>(rank * items() + i)] = kNotRead;
    }
  }
  lookup_->forward_at(context, features, phase_, places,
                      reinterpret_cast<float*>(requested_rows_.data()));
}

// The rows of all ranks for this one.
void HostShardedLookup::exchange_rows(const Context& context) {
  if (answers_)
    answers_->pack(
        context,
        [&](int rank, int64_t i) {
          return requested_rows_.at<const float>(self_, kept_block(rank, i));
        },
        [&](int rank, int64_t i) {
          return requested_rows_.at<const uint8_t>(self_, blocks() + kept_block(rank, i));
        },
        [&](int relay, size_t t) { return requested_rows_.at<float>(relay, item(0, t)); },
        [&](int relay, size_t t) {
          return requested_rows_.at<uint8_t>(relay, blocks() + item(0, t));
        });
  row_exchange_(context, requested_rows_, {0, blocks()}, asked_rows_, {0, items()});
  if (relay_)
    relay_->hand_out(
        context,
        [&](int owner, size_t t) { return asked_rows_.at<const float>(owner, item(0, t)); },
        [&](int owner, size_t t) {
          return asked_rows_.at<const uint8_t>(owner, items() + item(0, t));
        });
}

void HostShardedLookup::forward(const Context& context, std::span<const FeatureKeys> features,
                                Phase phase, AnyView out) {
  phase_ = phase;
  gradients_exchanged_ = false;
  take_shards(features, out);
  if (pooling_.is_used()) take_owner_units(context);
  make_requests(context);
  if (relay_)
    relay_->gather_lists(
        context, [&](int owner, int64_t i) { return needed_keys(owner, i); }, phase);
  exchange_sizes(context);
  exchange_keys(context);
  look_up(context);
  exchange_rows(context);
  expand(context, out.floats());
  count_missing();
  if (pooling_.is_used()) pooling_.exchange_vectors(context, out.floats(), counts_);
}

// ---- backward ----

void HostShardedLookup::exchange_gradients(const Context& context, ConstAnyView any_gradients) {
  const View<const float> gradients = any_gradients.floats();
  EMBLEM_REQUIRE(phase_ == Phase::kTrain,
                 "lookup: gradients without a training forward pass before them");
  EMBLEM_REQUIRE(gradients.rows == bags_ && gradients.cols == width_, "lookup: gradients are [",
                 gradients.rows, ", ", gradients.cols, "], but the last training pass was [", bags_,
                 ", ", width_, "]");
  if (std::exchange(gradients_exchanged_, true)) return;
  moving_ = Moving::kGradients;
  asked_rows_.lay_out(ranks_.size(), items(), [&](int rank, int64_t i) {
    return rank == self_ ? 0 : asked(rank, i) * row_bytes(table_of(i).settings);
  });
  if (sums_by_host_) relay_->lay_out_gradients();
  requested_rows_.lay_out(ranks_.size(), blocks(), [&](int rank, int64_t block) {
    return requested_bytes(rank, block, row_bytes(table_of(block).settings));
  });
  if (pooling_.is_used()) pooling_.exchange_gradients(context, gradients);
  places_ = requested_places();
  sum_by_key(context, gradients);
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    for (int64_t i = 0; rank != self_ && i < items(); ++i)
      if (table_of(i).replicated)
        copy_bytes(asked_rows_.at<float>(rank, i), requested_rows_.at<float>(self_, i),
                   asked_rows_.bytes(rank, i));
  }
  if (sums_by_host_)
    relay_->gather_sums(
        context, [&](int owner, size_t t) { return asked_rows_.at<float>(owner, item(0, t)); });
  row_exchange_(context, asked_rows_, {0, items()}, requested_rows_, {0, blocks()});
}

double HostShardedLookup::squared_gradient_norm(const Context& context, ConstAnyView gradients) {
  exchange_gradients(context, gradients);
  ExactSum sum;
  lookup_->add_squared_gradient_norm_at(
      context, places_, reinterpret_cast<const float*>(requested_rows_.data()), counted_, sum);
  sum_all(context, ranks_, sum.limbs());
  return sum.value();
}

void HostShardedLookup::backward(const Context& context, ConstAnyView gradients, float scale,
                                 float learning_rate, int64_t step) {
  exchange_gradients(context, gradients);
  lookup_->backward_at(context, places_, reinterpret_cast<const float*>(requested_rows_.data()),
                       scale, learning_rate, step);
  phase_ = Phase::kEval;  // a second update with the same gradients is a mistake
}

void HostShardedLookup::check(const Context& context) { lookup_->check(context); }

std::vector<LookupCounts> HostShardedLookup::take_counts(const Context&) {
  return std::exchange(counts_, std::vector<LookupCounts>(sources_));
}

}  // namespace emblem
