#include "embedding/local_lookup.h"

#include <algorithm>

namespace emblem {
namespace {

constexpr int64_t kFindKeys = 2048;  // keys whose rows one piece of work finds
constexpr int64_t kNewRows = 256;    // rows that one piece of work initializes
constexpr int64_t kSegments = 512;   // rows that one piece of work updates
constexpr int64_t kBlockBytes = 128
                                << 10;  // of output that one piece of work fills: stays in cache

}  // namespace

LocalLookup::LocalLookup(std::vector<LookupFeature> features)
    : find_chunks_(kFindKeys),
      insert_chunks_(kNewRows),
      slice_chunks_(1),
      part_chunks_(1),
      segment_chunks_(kSegments) {
  for (const LookupFeature& feature : features) {
    EMBLEM_REQUIRE(feature.table != nullptr, "lookup: feature ", features_.size(), " has no table");
    auto found = std::find(tables_.begin(), tables_.end(), feature.table);
    const auto number = static_cast<size_t>(found - tables_.begin());
    if (found == tables_.end()) {
      const Table& table = *feature.table;
      tables_.push_back(feature.table);
      groupings_.emplace_back(table.is_static() ? table.settings().capacity : 0);
    }
    features_.push_back({feature.table, feature.pooling, width_, number});
    width_ += feature.table->dim();
  }
  occurrences_.resize(tables_.size());
  runs_.resize(tables_.size());
}

void LocalLookup::check(std::span<const FeatureKeys> features, View<float> out) const {
  EMBLEM_REQUIRE(features.size() == features_.size(), "lookup: keys of ", features.size(),
                 " features were given, but there are ", features_.size());
  EMBLEM_REQUIRE(out.cols == width_, "lookup: output rows have ", out.cols, " floats, but need ",
                 width_);
  EMBLEM_REQUIRE(out.size() < int64_t{1} << 32, "lookup: the output has ", out.size(),
                 " floats, more than 2^32: lower the batch size");
  for (size_t f = 0; f < features.size(); ++f) {
    const FeatureKeys& keys = features[f];
    const std::string& table = features_[f].table->settings().name;
    const int64_t count = keys.keys.size();
    EMBLEM_REQUIRE(keys.weights.size() == 0 || keys.weights.size() == count, "lookup: feature ", f,
                   " (table ", table, ") has ", keys.weights.size(), " weights for ", count,
                   " keys");
    if (keys.offsets.size() == 0) {
      EMBLEM_REQUIRE(count == out.rows, "lookup: feature ", f, " (table ", table, ") has ", count,
                     " keys for ", out.rows, " bags and no offsets");
      continue;
    }
    const int32_t* offsets = keys.offsets.data;
    EMBLEM_REQUIRE(keys.offsets.size() == out.rows + 1, "lookup: feature ", f, " (table ", table,
                   ") has ", keys.offsets.size(), " offsets, but ", out.rows, " bags need ",
                   out.rows + 1);
    EMBLEM_REQUIRE(offsets[0] == 0 && offsets[out.rows] == count &&
                       std::is_sorted(offsets, offsets + out.rows + 1),
                   "lookup: the offsets of feature ", f, " (table ", table,
                   ") do not rise from 0 to its ", count, " keys");
  }
}

void LocalLookup::forward(const Context& context, std::span<const FeatureKeys> features,
                          Phase phase, View<float> out) {
  check(features, out);
  Pass& pass = phase == Phase::kTrain ? train_ : eval_;
  if (phase == Phase::kTrain) backward_ = Backward::kNothing;
  pass.keys.assign(features.begin(), features.end());
  pass.bags = out.rows;
  find_rows(context, pass);
  if (phase == Phase::kTrain) insert_rows(context, pass);
  gather(context, pass, phase, out);
  if (phase == Phase::kTrain) backward_ = Backward::kForwardDone;
}

void LocalLookup::find_rows(const Context& context, Pass& pass) {
  pass.rows.resize(features_.size());
  find_chunks_.clear();
  for (size_t f = 0; f < features_.size(); ++f) {
    const int64_t count = features_[f].table->is_static() ? 0 : pass.keys[f].keys.size();
    pass.rows[f].resize(count);
    find_chunks_.add(count);
  }
  find_chunks_.run(context, [&](int64_t, int64_t f, int64_t begin, int64_t end) {
    const auto count = static_cast<size_t>(end - begin);
    features_[f].table->find({pass.keys[f].keys.data + begin, count},
                             {pass.rows[f].data() + begin, count});
  });
}

void LocalLookup::insert_rows(const Context& context, Pass& pass) {
  for (auto& runs : runs_) runs.clear();
  for (size_t f = 0; f < features_.size(); ++f) {
    if (features_[f].table->is_static()) continue;
    const auto count = static_cast<size_t>(pass.keys[f].keys.size());
    runs_[features_[f].table_number].push_back(
        {{pass.keys[f].keys.data, count}, {pass.rows[f].data(), count}});
  }
  // Within a table new keys are taken in order; the tables do not know of each other.
  parallel_for(context, static_cast<int64_t>(tables_.size()), 1, [&](int64_t t, int64_t) {
    if (!runs_[t].empty()) tables_[t]->insert_missing(runs_[t]);
  });
  insert_chunks_.clear();
  for (size_t t = 0; t < tables_.size(); ++t) {
    insert_chunks_.add(runs_[t].empty() ? 0 : tables_[t]->new_rows());
  }
  insert_chunks_.run(context, [&](int64_t, int64_t t, int64_t begin, int64_t end) {
    tables_[t]->initialize_new_rows(begin, end);
  });
}

void LocalLookup::gather(const Context& context, Pass& pass, Phase phase, View<float> out) {
  pass.gathers.resize(features_.size());
  for (size_t f = 0; f < features_.size(); ++f) {
    const auto& [table, pooling, column, number] = features_[f];
    const FeatureKeys& keys = pass.keys[f];
    pass.gathers[f] = {.rows = table->rows(),
                       .keys = keys.keys.data,
                       .row_numbers = table->is_static() ? nullptr : pass.rows[f].data(),
                       .offsets = keys.offsets.size() != 0 ? keys.offsets.data : nullptr,
                       .weights = keys.weights.size() != 0 ? keys.weights.data : nullptr,
                       .bags = pass.bags,
                       .pooling = pooling,
                       .absent = table->absent(phase),
                       .seed = table->settings().seed,
                       .out = out.data + column,
                       .out_stride = width_};
  }
  bad_key_ = false;
  const int64_t block = std::clamp<int64_t>(kBlockBytes / (width_ * 4 + 1), 16, 256);
  parallel_for(context, pass.bags, block,
               [&](int64_t begin, int64_t end) { gather_block(pass, begin, end); });
  if (bad_key_) refuse_bad_keys(pass);
}

void LocalLookup::gather_block(const Pass& pass, int64_t begin, int64_t end) {
  for (size_t f = 0; f < features_.size(); ++f) {
    const GatherPool& op = pass.gathers[f];
    if (op.row_numbers == nullptr) {
      const auto capacity = static_cast<uint64_t>(features_[f].table->settings().capacity);
      const int64_t first = op.offsets != nullptr ? op.offsets[begin] : begin;
      const int64_t last = op.offsets != nullptr ? op.offsets[end] : end;
      bool outside = false;
      for (int64_t i = first; i < last; ++i)
        outside |= static_cast<uint64_t>(op.keys[i]) >= capacity;
      if (outside) {
        bad_key_ = true;  // which one is said later, in an order that no thread decides
        continue;
      }
    }
    cpu::gather_pool(op, begin, end);
  }
}

void LocalLookup::refuse_bad_keys(const Pass& pass) const {
  for (size_t f = 0; f < features_.size(); ++f) {
    const Table& table = *features_[f].table;
    if (!table.is_static()) continue;
    const std::span keys(pass.keys[f].keys.data, static_cast<size_t>(pass.keys[f].keys.size()));
    const auto bad = std::find_if(keys.begin(), keys.end(), [&](int64_t key) {
      return key < 0 || key >= table.settings().capacity;
    });
    if (bad != keys.end()) table.refuse({&*bad, 1});
  }
}

}  // namespace emblem
