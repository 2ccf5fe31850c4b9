#include "shard/cuda/device_sharded_lookup.h"

#include <utility>

#include "comm/sum_all.h"
#include "embedding/cuda/lookup/device_batch.cuh"
#include "embedding/cuda/lookup/device_lookup.h"
#include "shard/cuda/owner_pooled.h"
#include "shard/cuda/requester_pooled.h"

namespace emblem::cuda {

// What the parts of a lookup are made of. The same on all ranks.
struct DeviceShardedLookup::Parts {
  struct Group {
    std::vector<TableSlice> tables;
    std::vector<PartFeature> features;
    std::vector<Source> sources;
  };
  std::vector<Group> here{1};  // pooled by this rank; each has up to kMostFeatures
  Group at_owners;

  // A slice with its features; `tables` of features are not known yet.
  void add(const TableSlice& slice, std::vector<PartFeature> features,
           const std::vector<Source>& sources) {
    EMBLEM_REQUIRE(features.size() <= kMostFeatures, "lookup: ", features.size(),
                   " features of table ", slice.settings.name, " are more than the ", kMostFeatures,
                   " that a GPU lookup takes");
    const bool at_owner = slice.pooled_by >= 0;
    if (!at_owner && here.back().features.size() + features.size() > kMostFeatures)
      here.emplace_back();
    Group& group = at_owner ? at_owners : here.back();
    for (PartFeature& feature : features) {
      feature.table = group.tables.size();
      group.features.push_back(feature);
    }
    group.tables.push_back(slice);
    group.sources.insert(group.sources.end(), sources.begin(), sources.end());
  }
};

DeviceShardedLookup::DeviceShardedLookup(const Context& context,
                                         std::span<const ShardedTable> tables,
                                         std::span<const ShardedFeature> features,
                                         const ShardRanks& ranks, const LookupSettings& settings)
    : ranks_(ranks), counts_(features.size()) {
  EMBLEM_REQUIRE(ranks.host_dedup != HostDedup::kRows,
                 "lookup: GPUs that share rows of other hosts sum gradients by host");
  std::vector<int64_t> columns;  // by feature
  for (const ShardedFeature& feature : features) {
    columns.push_back(width_);
    width_ += tables[feature.table].settings.dim;
  }
  Parts parts;
  for (size_t t = 0; t < tables.size(); ++t) {
    int64_t first_column = 0;
    for (const TableSlice& slice : slices_of(tables[t], ranks.host->size(), ranks.host->rank())) {
      std::vector<PartFeature> of_slice;
      std::vector<Source> sources;
      for (size_t f = 0; f < features.size(); ++f) {
        if (features[f].table != t) continue;
        of_slice.push_back({.pooling = features[f].pooling, .column = columns[f] + first_column});
        sources.push_back({f, slice.is_first});
      }
      if (!of_slice.empty()) parts.add(slice, std::move(of_slice), sources);
      first_column += slice.settings.dim;
    }
  }
  for (Parts::Group& group : parts.here) {
    if (group.features.empty()) continue;
    auto lookup = std::make_unique<RequesterPooled>(
        context, group.tables, group.features, width_, ranks, settings,
        ranks.host_dedup == HostDedup::kNone ? RequesterPooled::Asks::kHolders
                                             : RequesterPooled::Asks::kRelays);
    parts_.push_back({std::move(lookup), std::move(group.sources), {}});
  }
  if (parts.at_owners.features.empty()) return;
  auto lookup = std::make_unique<OwnerPooled>(context, parts.at_owners.tables,
                                              parts.at_owners.features, ranks, settings);
  parts_.push_back({std::move(lookup), std::move(parts.at_owners.sources), {}});
}

// ---- forward ----

void DeviceShardedLookup::check_shards(std::span<const FeatureKeys> features) const {
  const size_t each = counts_.size();
  EMBLEM_REQUIRE(
      features.size() % each == 0 && static_cast<int64_t>(features.size() / each) <= ranks_.slots,
      "lookup: keys of ", features.size(), " features were given, but up to ", ranks_.slots,
      " shards have ", each, " each");
}

int64_t DeviceShardedLookup::take_bags(std::span<const FeatureKeys> features) {
  const size_t each = counts_.size();
  int64_t bags = 0;
  for (size_t i = 0; i < features.size(); ++i) {
    const int64_t of_shard = bags_of(features[i / each * each]);
    EMBLEM_REQUIRE(bags_of(features[i]) == of_shard,
                   "lookup: the features of a shard have different numbers of bags");
    if (i % each == 0) bags += of_shard;
    counts_[i % each].values += features[i].keys.size();
  }
  return bags;
}

void DeviceShardedLookup::take_keys(std::span<const FeatureKeys> features, Part& part) const {
  part.keys.clear();
  for (size_t first = 0; first < features.size(); first += counts_.size())
    for (const Source& source : part.sources) part.keys.push_back(features[first + source.feature]);
}

void DeviceShardedLookup::forward(const Context& context, std::span<const FeatureKeys> features,
                                  Phase phase, AnyView out) {
  check_shards(features);
  bags_ = take_bags(features);
  EMBLEM_REQUIRE(out.rows == bags_ && out.cols == width_, "lookup: output is [", out.rows, ", ",
                 out.cols, "], but the batch needs [", bags_, ", ", width_, "]");
  phase_ = phase;
  for (Part& part : parts_) {
    take_keys(features, part);
    part.lookup->forward(context, part.keys, phase, out);
  }
}

void DeviceShardedLookup::prefetch(const Context& context, std::span<const FeatureKeys> features) {
  check_shards(features);
  for (Part& part : parts_) {
    take_keys(features, part);
    part.lookup->prefetch(context, part.keys);
  }
}

// ---- backward ----

void DeviceShardedLookup::check_gradients(ConstAnyView gradients) const {
  EMBLEM_REQUIRE(phase_ == Phase::kTrain,
                 "lookup: gradients without a training forward pass before them");
  EMBLEM_REQUIRE(gradients.rows == bags_ && gradients.cols == width_, "lookup: gradients are [",
                 gradients.rows, ", ", gradients.cols, "], but the last training pass was [", bags_,
                 ", ", width_, "]");
}

void DeviceShardedLookup::prepare_backward(const Context& context, ConstAnyView gradients) {
  check_gradients(gradients);
  for (const Part& part : parts_) part.lookup->prepare_backward(context, gradients);
}

void DeviceShardedLookup::add_squared_gradient_norm(const Context& context, ConstAnyView gradients,
                                                    ExactSum& sum) {
  check_gradients(gradients);
  for (const Part& part : parts_) part.lookup->add_squared_gradient_norm(context, gradients, sum);
}

double DeviceShardedLookup::squared_gradient_norm(const Context& context, ConstAnyView gradients) {
  ExactSum sum;
  add_squared_gradient_norm(context, gradients, sum);
  sum_all(Context{}, *ranks_.host, sum.limbs());
  return sum.value();
}

void DeviceShardedLookup::backward(const Context& context, ConstAnyView gradients, float scale,
                                   float learning_rate, int64_t step) {
  check_gradients(gradients);
  for (const Part& part : parts_)
    part.lookup->backward(context, gradients, {scale, learning_rate, step});
  phase_ = Phase::kEval;  // a second update with the same gradients is a mistake
}

void DeviceShardedLookup::check(const Context& context) {
  for (const Part& part : parts_) part.lookup->check(context);
}

std::vector<LookupCounts> DeviceShardedLookup::take_counts(const Context& context) {
  std::vector<LookupCounts> counts =
      std::exchange(counts_, std::vector<LookupCounts>(counts_.size()));
  for (const Part& part : parts_) {
    const std::vector<int64_t> missing = part.lookup->take_missing(context);
    for (size_t f = 0; f < missing.size(); ++f)
      if (part.sources[f].counts_missing) counts[part.sources[f].feature].missing += missing[f];
  }
  return counts;
}

std::unique_ptr<Lookup> make_sharded_lookup(const Context& context,
                                            std::span<const ShardedTable> tables,
                                            std::span<const ShardedFeature> features,
                                            const ShardRanks& ranks,
                                            const LookupSettings& settings) {
  const bool is_alone = ranks.host->size() == 1 && ranks.slots == 1 && settings.dedup;
  if (!is_alone || features.size() > kMostFeatures)
    return std::make_unique<DeviceShardedLookup>(context, tables, features, ranks, settings);
  // All rows are here, and all gradients: nothing is exchanged or added up in between.
  std::vector<LookupFeature> plain;
  for (const ShardedFeature& feature : features)
    plain.push_back({tables[feature.table].local, feature.pooling});
  return std::make_unique<DeviceLookup>(context, plain, settings);
}

}  // namespace emblem::cuda
