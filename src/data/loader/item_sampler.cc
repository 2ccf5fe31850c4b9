#include "data/loader/item_sampler.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "core/math/random.h"
#include "data/feature/row_gather.h"
#include "data/format/text/csv_types.h"
#include "data/loader/place_number.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr int kMostDraws = 4;  // of a negative, until it may be an item of the batch

// Bag `bag` of a column whose bags are those of rows.
std::pair<size_t, size_t> bag_of(const SparseColumn& column, size_t bag) {
  if (column.offsets.empty()) return {bag, bag + 1};
  return {static_cast<size_t>(column.offsets[bag]), static_cast<size_t>(column.offsets[bag + 1])};
}

}  // namespace

WeightedDraw::WeightedDraw(const std::vector<double>& weights) {
  const size_t count = weights.size();
  const double scale =
      static_cast<double>(count) / std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<double> left(count);
  std::vector<uint32_t> small, large;
  for (size_t i = 0; i < count; ++i) {
    left[i] = weights[i] * scale;
    (left[i] < 1.0 ? small : large).push_back(static_cast<uint32_t>(i));
  }
  keep_.assign(count, 1.0f);
  other_.resize(count);
  while (!small.empty() && !large.empty()) {
    const uint32_t from = small.back(), to = large.back();
    small.pop_back();
    keep_[from] = static_cast<float>(left[from]);
    other_[from] = to;
    left[to] -= 1.0 - left[from];
    if (left[to] >= 1.0) continue;
    large.pop_back();
    small.push_back(to);
  }
  // What rounding has left over: without weight only where others have none either.
  for (const uint32_t i : small)
    if (weights[i] == 0.0) keep_[i] = 0.0f;
}

size_t WeightedDraw::operator()(Random& random) const {
  const size_t at = random.below(keep_.size());
  return random.uniform() < keep_[at] ? at : other_[at];
}

ItemSampler::ItemSampler(const config::DataConfig& data, const FeatureLayout& layout,
                         const LoaderOptions& options)
    : seed_(
          random_bits(options.seed, 0x6974656d73000000ull, static_cast<uint64_t>(options.stream))),
      space_(static_cast<size_t>(items_in(layout))) {
  const ItemSamplerSpec sampler = *item_sampler_of(data);
  const SequenceSpec& items = layout.sequences[space_];
  row_cols_ = layout.dense_cols;
  item_cols_ = items.dense_cols;
  for (const size_t at : items.features) {
    const FeatureSpec& feature = layout.features[at];
    if (feature.kind != FeatureKind::kSparse) continue;
    features_.push_back(static_cast<size_t>(feature.sparse_index));
    if (feature.column != sampler.item_id_field) continue;
    id_ = features_.back();
    EMBLEM_REQUIRE(!feature.inputs.empty() || options.label_check == LabelCheck::kIgnore,
                   "data_config.negative_sampler.item_id_field is read by feature \"", feature.name,
                   "\", which is in no feature group; add it to that of the item tower");
  }
  if (options.label_check == LabelCheck::kIgnore) return;
  count_ = sampler.count;
  catalogue_ = read_items(data, layout, sampler);
  draw_.emplace_back(catalogue_.weights);
}

std::vector<size_t> ItemSampler::draw(const Batch& batch) const {
  if (draw_.empty() || batch.rows == 0) return {};
  const auto key_of = [](const SparseColumn& column, size_t row) {
    const auto [begin, end] = bag_of(column, row);
    return begin == end ? int64_t{-1} : column.keys[begin];
  };
  std::unordered_set<int64_t> own;
  for (size_t row = 0; row < static_cast<size_t>(batch.rows); ++row)
    own.insert(key_of(batch.sparse[id_], row));
  Random random{.seed = seed_, .stream = place_number(batch.next)};
  std::vector<size_t> drawn(static_cast<size_t>(count_));
  for (size_t& item : drawn) {
    for (int draws = 0; draws < kMostDraws; ++draws) {
      item = draw_[0](random);
      if (!own.contains(key_of(catalogue_.features.sparse[id_], item))) break;
    }
  }
  return drawn;
}

void ItemSampler::add_keys(const std::vector<size_t>& drawn, size_t feature, Batch& batch) const {
  SparseColumn& column = batch.sparse[feature];
  column.sequence = static_cast<int32_t>(space_);
  if (drawn.empty()) return;
  const SparseColumn& from = catalogue_.features.sparse[feature];
  const bool has_weights = !column.weights.empty() || !from.weights.empty();
  if (has_weights && column.weights.empty()) column.weights.assign(column.keys.size(), 1.0f);
  if (column.offsets.empty()) {
    column.offsets.resize(static_cast<size_t>(batch.rows) + 1);
    std::iota(column.offsets.begin(), column.offsets.end(), 0);
  }
  for (const size_t item : drawn) {
    const auto [begin, end] = bag_of(from, item);
    for (size_t i = begin; i < end; ++i) {
      column.keys.push_back(from.keys[i]);
      if (has_weights) column.weights.push_back(from.weights.empty() ? 1.0f : from.weights[i]);
    }
    column.offsets.push_back(static_cast<int32_t>(column.keys.size()));
  }
  drop_plain_offsets(column);
}

// Numbers of items are behind those of the row.
void ItemSampler::add_numbers(const std::vector<size_t>& drawn, Batch& batch) const {
  const int64_t cols = row_cols_ + item_cols_;
  HostVector<float>& numbers = batch.sequences[space_].numbers;
  numbers.resize((static_cast<size_t>(batch.rows) + drawn.size()) *
                 static_cast<size_t>(item_cols_));
  float* to = numbers.data();
  const auto add = [&](const float* row) { to = std::copy_n(row + row_cols_, item_cols_, to); };
  for (int64_t row = 0; row < batch.rows; ++row) add(batch.dense.data() + row * cols);
  for (const size_t item : drawn)
    add(catalogue_.features.dense.data() + static_cast<int64_t>(item) * cols);
  for (int64_t row = 1; row < batch.rows; ++row)
    std::copy_n(batch.dense.data() + row * cols, row_cols_, batch.dense.data() + row * row_cols_);
  batch.dense.resize(static_cast<size_t>(batch.rows * row_cols_));
}

void ItemSampler::add_items(Batch& batch) const {
  const std::vector<size_t> drawn = draw(batch);
  batch.resize_sequences(space_ + 1);
  HostVector<int32_t>& offsets = batch.sequences[space_].offsets;
  offsets.resize(static_cast<size_t>(batch.rows) + 1);
  std::iota(offsets.begin(), offsets.end(), 0);
  offsets.back() += static_cast<int32_t>(drawn.size());
  for (const size_t feature : features_) add_keys(drawn, feature, batch);
  add_numbers(drawn, batch);
}

}  // namespace emblem
