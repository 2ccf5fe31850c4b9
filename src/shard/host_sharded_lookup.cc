#include "shard/host_sharded_lookup.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/sum_all.h"
#include "core/thread_pool.h"
#include "embedding/row_share.h"

namespace emblem {
namespace {

constexpr int64_t kBags = 256;      // pooled per task
constexpr int64_t kSegments = 512;  // summed per task

bool counts_matter(const TableSettings& settings) {
  return settings.admission_threshold > 1 || settings.eviction == Eviction::kLfu;
}

int64_t row_bytes(const TableSettings& settings) {
  return settings.dim * static_cast<int64_t>(sizeof(float));
}

void copy_bytes(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

}  // namespace

HostShardedLookup::HostShardedLookup(std::span<const ShardedTable> tables,
                                     std::span<const ShardedFeature> features, Communicator& ranks,
                                     int64_t slots)
    : ranks_(ranks), slots_(slots) {
  for (const ShardedTable& table : tables) {
    const TableSettings& settings = table.settings;
    const LookupFeature rows{table.local, Pooling::kSum};
    tables_.push_back({.settings = settings,
                       .replicated = table.shards.replicated,
                       .sends_counts = counts_matter(settings),
                       .can_miss = settings.kind == TableKind::kDynamic,
                       .owners = KeyOwners(settings, table.shards, ranks.size(), ranks.rank()),
                       .lookup = make_lookup(Context{}, {&rows, 1})});
    tables_.back().settings.held = table.shards.held_by(ranks.rank());
    any_counts_ |= tables_.back().sends_counts;
    any_missing_ |= tables_.back().can_miss;
  }
  for (const ShardedFeature& feature : features) {
    HeldTable& table = tables_.at(feature.table);
    features_.push_back({feature.table, feature.pooling, width_, table.features.size()});
    table.features.push_back(features_.size() - 1);
    width_ += table.settings.dim;
  }
  counts_.resize(features_.size());
}

// ---- who asks whom for how much ----

int64_t HostShardedLookup::asked(int rank, int64_t item) const {
  const auto slot = static_cast<size_t>(item / static_cast<int64_t>(tables()));
  const auto t = static_cast<size_t>(item % static_cast<int64_t>(tables()));
  if (slot >= shards_.size()) return 0;
  const TableRequests& requests = shards_[slot].requests[t];
  // In training every copy of a replicated table is updated.
  if (tables_[t].replicated && phase_ == Phase::kTrain) return requests.size();
  return requests.begin(rank + 1) - requests.begin(rank);
}

int64_t HostShardedLookup::requested(int rank, int64_t item) const {
  return sizes_[static_cast<size_t>(rank * items() + item)];
}

bool HostShardedLookup::answers(int rank, size_t table) const {
  return !tables_[table].replicated || rank == ranks_.rank();
}

template <class Body>
void HostShardedLookup::for_each_requested(size_t table, Body&& body) const {
  int64_t first = 0;
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    for (int64_t slot = 0; slot < slots_; ++slot) {
      const int64_t count = requested(rank, item(slot, table));
      body(rank, item(slot, table), first, count);
      first += count;
    }
  }
}

// ---- forward ----

void HostShardedLookup::take_shards(std::span<const FeatureKeys> features, AnyView out) {
  const size_t each = features_.size();
  EMBLEM_REQUIRE(
      features.size() % each == 0 && static_cast<int64_t>(features.size() / each) <= slots_,
      "lookup: keys of ", features.size(), " features were given, but up to ", slots_,
      " shards have ", each, " each");
  shards_.resize(features.size() / each);
  std::vector<Table*> locals;
  bags_ = 0;
  for (size_t s = 0; s < shards_.size(); ++s) {
    Shard& shard = shards_[s];
    shard.features.assign(features.begin() + static_cast<ptrdiff_t>(s * each),
                          features.begin() + static_cast<ptrdiff_t>((s + 1) * each));
    const FeatureKeys& first = shard.features[0];
    shard.first_bag = bags_;
    shard.bags = first.offsets.size() > 0 ? first.offsets.size() - 1 : first.keys.size();
    bags_ += shard.bags;
    shard.requests.resize(tables());
    shard.groupings.resize(tables());
    for (const FeatureKeys& keys : shard.features)
      EMBLEM_REQUIRE(
          (keys.offsets.size() > 0 ? keys.offsets.size() - 1 : keys.keys.size()) == shard.bags,
          "lookup: the features of a shard have different numbers of bags");
  }
  EMBLEM_REQUIRE(out.rows == bags_ && out.cols == width_, "lookup: output is [", out.rows, ", ",
                 out.cols, "], but the batch needs [", bags_, ", ", width_, "]");
}

void HostShardedLookup::make_requests(const Context& context) {
  const auto each = static_cast<int64_t>(tables());
  parallel_for(context, static_cast<int64_t>(shards_.size()) * each, 1, [&](int64_t i, int64_t) {
    Shard& shard = shards_[static_cast<size_t>(i / each)];
    const auto t = static_cast<size_t>(i % each);
    std::vector<const FeatureKeys*> features;
    for (const size_t f : tables_[t].features) features.push_back(&shard.features[f]);
    shard.requests[t].make(features, tables_[t].owners);
  });
}

void HostShardedLookup::exchange_sizes(const Context& context) {
  const auto total = static_cast<size_t>(ranks_.size() * items());
  HostVector<int32_t> mine;
  mine.resize(total);
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
  const int ranks = ranks_.size();
  asked_keys_.lay_out(ranks, items(), [&](int rank, int64_t i) { return asked(rank, i) * 8; });
  requested_keys_.lay_out(ranks, items(),
                          [&](int rank, int64_t i) { return requested(rank, i) * 8; });
  const auto counted = [&](int64_t i) {
    return tables_[static_cast<size_t>(i) % tables()].sends_counts ? 4 : 0;
  };
  asked_counts_.lay_out(ranks, items(),
                        [&](int rank, int64_t i) { return asked(rank, i) * counted(i); });
  requested_counts_.lay_out(ranks, items(),
                            [&](int rank, int64_t i) { return requested(rank, i) * counted(i); });
  for (int rank = 0; rank < ranks; ++rank) {
    for (size_t s = 0; s < shards_.size(); ++s) {
      for (size_t t = 0; t < tables(); ++t) {
        const int64_t i = item(static_cast<int64_t>(s), t);
        const TableRequests& requests = shards_[s].requests[t];
        const int64_t first = asked(rank, i) == requests.size() ? 0 : requests.begin(rank);
        copy_bytes(asked_keys_.at<int64_t>(rank, i), requests.keys().data() + first,
                   asked_keys_.bytes(rank, i));
        copy_bytes(asked_counts_.at<int32_t>(rank, i), requests.counts().data() + first,
                   asked_counts_.bytes(rank, i));
      }
    }
  }
  ranks_.exchange(context, asked_keys_.pieces(), requested_keys_.pieces());
  if (any_counts_ && phase_ == Phase::kTrain)
    ranks_.exchange(context, asked_counts_.pieces(), requested_counts_.pieces());
}

// The rows that are here, for all ranks.
void HostShardedLookup::look_up(const Context& context, Phase phase) {
  for (size_t t = 0; t < tables(); ++t) {
    HeldTable& table = tables_[t];
    const bool counts = table.sends_counts && phase == Phase::kTrain;
    int64_t total = 0;
    for_each_requested(t, [&](int, int64_t, int64_t, int64_t count) { total += count; });
    const auto size = static_cast<size_t>(total);
    table.keys.resize(size);
    table.counts.resize(counts ? size : 0);
    table.absent.resize(table.can_miss ? size : 0);
    table.rows.resize(size * static_cast<size_t>(table.settings.dim));
    for_each_requested(t, [&](int rank, int64_t i, int64_t first, int64_t count) {
      copy_bytes(table.keys.data() + first, requested_keys_.at<int64_t>(rank, i), count * 8);
      if (counts)
        copy_bytes(table.counts.data() + first, requested_counts_.at<int32_t>(rank, i), count * 4);
    });
    if (table.settings.kind == TableKind::kStatic && !table.settings.held.is_everything())
      for (int64_t& key : table.keys) key = local_row(key, table.settings.held);
    const FeatureKeys keys{.keys = {table.keys.data(), total, 1},
                           .counts = {table.counts.data(), counts ? total : 0, 1},
                           .absent = {table.absent.data(), table.can_miss ? total : 0, 1}};
    table.lookup->forward(context, {&keys, 1}, phase,
                          View<float>{table.rows.data(), total, table.settings.dim});
  }
}

void HostShardedLookup::exchange_rows(const Context& context) {
  const auto bytes = [&](int64_t i) {
    return row_bytes(tables_[static_cast<size_t>(i) % tables()].settings);
  };
  const auto comes_back = [&](int rank, int64_t i) {
    return answers(rank, static_cast<size_t>(i) % tables());
  };
  asked_rows_.lay_out(ranks_.size(), items(), [&](int rank, int64_t i) {
    return comes_back(rank, i) ? asked(rank, i) * bytes(i) : 0;
  });
  requested_rows_.lay_out(ranks_.size(), items(), [&](int rank, int64_t i) {
    return comes_back(rank, i) ? requested(rank, i) * bytes(i) : 0;
  });
  for (size_t t = 0; t < tables(); ++t) {
    const HeldTable& table = tables_[t];
    for_each_requested(t, [&](int rank, int64_t i, int64_t first, int64_t) {
      copy_bytes(requested_rows_.at<float>(rank, i), table.rows.data() + first * table.settings.dim,
                 requested_rows_.bytes(rank, i));
    });
  }
  ranks_.exchange(context, requested_rows_.pieces(), asked_rows_.pieces());
}

void HostShardedLookup::exchange_absent(const Context& context) {
  if (!any_missing_) return;
  const auto bytes = [&](int rank, int64_t i) {
    const auto t = static_cast<size_t>(i) % tables();
    return tables_[t].can_miss && answers(rank, t) ? 1 : 0;
  };
  asked_absent_.lay_out(ranks_.size(), items(),
                        [&](int rank, int64_t i) { return asked(rank, i) * bytes(rank, i); });
  requested_absent_.lay_out(ranks_.size(), items(), [&](int rank, int64_t i) {
    return requested(rank, i) * bytes(rank, i);
  });
  for (size_t t = 0; t < tables(); ++t) {
    for_each_requested(t, [&](int rank, int64_t i, int64_t first, int64_t) {
      copy_bytes(requested_absent_.at<uint8_t>(rank, i), tables_[t].absent.data() + first,
                 requested_absent_.bytes(rank, i));
    });
  }
  ranks_.exchange(context, requested_absent_.pieces(), asked_absent_.pieces());
}

// Pools the rows that came.
void HostShardedLookup::expand(const Context& context, View<float> out) {
  std::vector<const float*> row_of_request;
  std::vector<const float*> addresses;
  for (size_t s = 0; s < shards_.size(); ++s) {
    const Shard& shard = shards_[s];
    for (size_t t = 0; t < tables(); ++t) {
      const TableRequests& requests = shard.requests[t];
      const int64_t dim = tables_[t].settings.dim;
      row_of_request.resize(static_cast<size_t>(requests.size()));
      for (int rank = 0; rank < ranks_.size(); ++rank) {
        const float* rows = asked_rows_.at<float>(rank, item(static_cast<int64_t>(s), t));
        for (int64_t i = requests.begin(rank); i < requests.begin(rank + 1); ++i)
          row_of_request[static_cast<size_t>(i)] = rows + (i - requests.begin(rank)) * dim;
      }
      for (const size_t f : tables_[t].features) {
        const FeatureKeys& keys = shard.features[f];
        const std::span<const uint32_t> numbers = requests.numbers(features_[f].position);
        addresses.resize(numbers.size());
        for (size_t i = 0; i < numbers.size(); ++i) addresses[i] = row_of_request[numbers[i]];
        const GatherPool op{.rows = {.dim = dim},
                            .row_addresses = addresses.data(),
                            .offsets = keys.offsets.size() > 0 ? keys.offsets.data : nullptr,
                            .weights = keys.weights.size() > 0 ? keys.weights.data : nullptr,
                            .bags = shard.bags,
                            .pooling = features_[f].pooling,
                            .out = out.data + shard.first_bag * width_ + features_[f].column,
                            .out_stride = width_};
        parallel_for(context, shard.bags, kBags,
                     [&](int64_t begin, int64_t end) { cpu::gather_pool(op, begin, end); });
      }
    }
  }
}

void HostShardedLookup::count_missing() {
  for (size_t s = 0; s < shards_.size(); ++s) {
    const Shard& shard = shards_[s];
    for (size_t f = 0; f < features_.size(); ++f) {
      counts_[f].values += shard.features[f].keys.size();
      const size_t t = features_[f].table;
      if (!tables_[t].can_miss) continue;
      const TableRequests& requests = shard.requests[t];
      std::vector<uint8_t> absent(static_cast<size_t>(requests.size()));
      for (int rank = 0; rank < ranks_.size(); ++rank) {
        const int64_t i = item(static_cast<int64_t>(s), t);
        copy_bytes(absent.data() + requests.begin(rank), asked_absent_.at<uint8_t>(rank, i),
                   requests.begin(rank + 1) - requests.begin(rank));
      }
      for (const uint32_t number : requests.numbers(features_[f].position))
        counts_[f].missing += absent[number];
    }
  }
}

void HostShardedLookup::forward(const Context& context, std::span<const FeatureKeys> features,
                                Phase phase, AnyView out) {
  phase_ = phase;
  gradients_exchanged_ = false;
  take_shards(features, out);
  make_requests(context);
  exchange_sizes(context);
  exchange_keys(context);
  look_up(context, phase);
  exchange_rows(context);
  exchange_absent(context);
  expand(context, out.floats());
  count_missing();
}

// ---- backward ----

// Writes the sums to where their owners are sent them from.
void HostShardedLookup::sum_by_key(const Context& context, View<const float> gradients) {
  std::vector<float*> sum_of_request;
  for (size_t s = 0; s < shards_.size(); ++s) {
    Shard& shard = shards_[s];
    for (size_t t = 0; t < tables(); ++t) {
      const HeldTable& table = tables_[t];
      const TableRequests& requests = shard.requests[t];
      const int64_t i = item(static_cast<int64_t>(s), t), dim = table.settings.dim;
      sum_of_request.resize(static_cast<size_t>(requests.size()));
      for (int rank = 0; rank < ranks_.size(); ++rank) {
        float* sums = asked_rows_.at<float>(rank, i);
        for (int64_t n = requests.begin(rank); n < requests.begin(rank + 1); ++n)
          sum_of_request[static_cast<size_t>(n)] = sums + (n - requests.begin(rank)) * dim;
      }
      std::vector<Occurrences> occurrences;
      for (const size_t f : table.features)
        occurrences.push_back({shard.features[f], requests.numbers(features_[f].position).data(),
                               features_[f].pooling, features_[f].column});
      Grouping& grouping = shard.groupings[t];
      grouping.set_rows(requests.size());
      grouping.start(occurrences, width_, shard.bags);
      if (grouping.parts() > 1) {
        parallel_for(context, grouping.slices(), 1,
                     [&](int64_t slice, int64_t) { grouping.count_slice(slice); });
        grouping.place_slices();
        parallel_for(context, grouping.slices(), 1,
                     [&](int64_t slice, int64_t) { grouping.fill_slice(slice); });
      }
      parallel_for(context, grouping.parts(), 1, [&](int64_t part, int64_t) {
        grouping.group_part(part);
        const SegmentUpdate op{.rows = {.dim = dim},
                               .segments = grouping.segments(part),
                               .gradients = gradients.data + shard.first_bag * width_};
        cpu::sum_segments(op, 0, op.segments.count, sum_of_request.data());
      });
    }
  }
}

void HostShardedLookup::exchange_gradients(const Context& context, ConstAnyView any_gradients) {
  const View<const float> gradients = any_gradients.floats();
  EMBLEM_REQUIRE(phase_ == Phase::kTrain,
                 "lookup: gradients without a training forward pass before them");
  EMBLEM_REQUIRE(gradients.rows == bags_ && gradients.cols == width_, "lookup: gradients are [",
                 gradients.rows, ", ", gradients.cols, "], but the last training pass was [", bags_,
                 ", ", width_, "]");
  if (std::exchange(gradients_exchanged_, true)) return;
  const auto bytes = [&](int64_t i) {
    return row_bytes(tables_[static_cast<size_t>(i) % tables()].settings);
  };
  asked_rows_.lay_out(ranks_.size(), items(),
                      [&](int rank, int64_t i) { return asked(rank, i) * bytes(i); });
  requested_rows_.lay_out(ranks_.size(), items(),
                          [&](int rank, int64_t i) { return requested(rank, i) * bytes(i); });
  sum_by_key(context, gradients);
  const int self = ranks_.rank();
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    for (int64_t i = 0; rank != self && i < items(); ++i)
      if (tables_[static_cast<size_t>(i) % tables()].replicated)
        copy_bytes(asked_rows_.at<float>(rank, i), asked_rows_.at<float>(self, i),
                   asked_rows_.bytes(rank, i));
  }
  ranks_.exchange(context, asked_rows_.pieces(), requested_rows_.pieces());
  for (size_t t = 0; t < tables(); ++t) {
    HeldTable& table = tables_[t];
    table.gradients.resize(table.rows.size());
    for_each_requested(t, [&](int rank, int64_t i, int64_t first, int64_t) {
      copy_bytes(table.gradients.data() + first * table.settings.dim,
                 requested_rows_.at<float>(rank, i), requested_rows_.bytes(rank, i));
    });
  }
}

double HostShardedLookup::squared_gradient_norm(const Context& context, ConstAnyView gradients) {
  exchange_gradients(context, gradients);
  ExactSum sum;
  for (HeldTable& table : tables_) {
    if (table.replicated && ranks_.rank() != 0) continue;  // counted once
    const auto rows = static_cast<int64_t>(table.keys.size());
    table.lookup->add_squared_gradient_norm(
        context, View<const float>{table.gradients.data(), rows, table.settings.dim}, sum);
  }
  sum_all(context, ranks_, sum.limbs());
  return sum.value();
}

void HostShardedLookup::backward(const Context& context, ConstAnyView gradients, float scale,
                                 float learning_rate, int64_t step) {
  exchange_gradients(context, gradients);
  for (HeldTable& table : tables_) {
    const auto rows = static_cast<int64_t>(table.keys.size());
    table.lookup->backward(context,
                           View<const float>{table.gradients.data(), rows, table.settings.dim},
                           scale, learning_rate, step);
  }
  phase_ = Phase::kEval;  // a second update with the same gradients is a mistake
}

void HostShardedLookup::check(const Context& context) {
  for (HeldTable& table : tables_) table.lookup->check(context);
}

std::vector<LookupCounts> HostShardedLookup::take_counts(const Context&) {
  return std::exchange(counts_, std::vector<LookupCounts>(features_.size()));
}

}  // namespace emblem
