#include "data/loader/item_sampler.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "core/math/random.h"
#include "data/format/text/csv_types.h"
#include "data/items/id_file.h"
#include "data/loader/place_number.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Of a negative, until it may be an item of the batch.
constexpr int kMostDrawsByWeight = 4, kMostUniformDraws = 6;

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
                   sampler.name, ".item_id_field is read by feature \"", feature.name,
                   "\", which is in no feature group; add it to that of the item tower");
  }
  if (options.label_check == LabelCheck::kIgnore) return;
  count_ = sampler.count;
  std::vector<std::string> files = files_of(sampler);
  files.push_back(layout.candidates.frequency_path);
  const Storage storage = storage_of_files(data, files, options.storage);
  catalogue_ = read_items(data, layout, sampler, storage);
  if (!sampler.user_input_path.empty()) read_edges(data, layout, sampler, storage);
  if (sampler.draws == ItemSamplerSpec::Draws::kByWeight) draw_.emplace_back(catalogue_.weights);
  if (layout.candidates.have_frequency) count_candidates(data, layout, storage);
}

void ItemSampler::read_edges(const config::DataConfig& data, const FeatureLayout& layout,
                             const ItemSamplerSpec& sampler, const Storage& storage) {
  const FeatureSpec& user = layout.find(layout.candidates.user_id);
  user_ = static_cast<size_t>(user.sparse_index);
  const char tab = sampler.field_delimiter;
  const UserKeys users = read_users(data, layout, user.name, sampler.user_id_field,
                                    sampler.user_input_path, tab, storage);
  const auto read = [&](const std::string& path) {
    return emblem::read_edges(path, tab, users, catalogue_.rows_of_ids, storage);
  };
  if (!sampler.positive_edges.empty()) positive_ = read(sampler.positive_edges);
  if (!sampler.hard_edges.empty()) hard_ = read(sampler.hard_edges);
  hard_count_ = sampler.hard_count;
  are_of_single_rows_ = layout.candidates.are_of_single_rows;
  choice_ = positive_.all_items();
  catalogue_.rows_of_ids.clear();
}

void ItemSampler::count_candidates(const config::DataConfig& data, const FeatureLayout& layout,
                                   const Storage& storage) {
  CandidateDraws& draws = candidates_.emplace(data, layout, storage);
  std::vector<double> weights = catalogue_.weights;
  if (!choice_.empty()) {
    std::fill(weights.begin(), weights.end(), 0.0);
    for (const uint32_t item : choice_) weights[item] = 1.0;
  }
  draws.set_sampled(count_, weights, catalogue_.features);
}

ItemSampler::Drawn ItemSampler::draw(const Batch& batch) const {
  Drawn drawn;
  if (count_ == 0 || batch.rows == 0) return drawn;
  Random random{.seed = seed_, .stream = place_number(batch.next)};
  drawn.items.resize(static_cast<size_t>(count_));
  if (choice_.empty())
    draw_by_weight(batch, random, drawn.items);
  else
    draw_uniformly(batch, random, drawn.items);
  if (hard_count_ > 0) draw_hard(batch, random, drawn);
  return drawn;
}

void ItemSampler::draw_by_weight(const Batch& batch, Random& random,
                                 std::vector<size_t>& drawn) const {
  std::unordered_set<int64_t> own;
  for (size_t row = 0; row < static_cast<size_t>(batch.rows); ++row)
    own.insert(first_key(batch.sparse[id_], row));
  for (size_t& item : drawn) {
    for (int draws = 0; draws < kMostDrawsByWeight; ++draws) {
      item = draw_[0](random);
      if (!own.contains(first_key(catalogue_.features.sparse[id_], item))) break;
    }
  }
}

void ItemSampler::draw_uniformly(const Batch& batch, Random& random,
                                 std::vector<size_t>& drawn) const {
  const SparseColumn& keys = catalogue_.features.sparse[id_];
  const auto rows = static_cast<size_t>(batch.rows);
  const size_t each = (drawn.size() + rows - 1) / rows;
  std::unordered_set<int64_t> chosen;  // by users of rows up to that of the negative
  for (size_t i = 0; i < drawn.size(); ++i) {
    if (const size_t row = i / each; i % each == 0) {
      chosen.insert(first_key(batch.sparse[id_], row));
      for (const uint32_t item : positive_.items_of(first_key(batch.sparse[user_], row)))
        chosen.insert(first_key(keys, item));
    }
    for (int draws = 0; draws < kMostUniformDraws; ++draws) {
      drawn[i] = choice_[random.below(choice_.size())];
      if (!chosen.contains(first_key(keys, drawn[i]))) break;
    }
  }
}

// All hard negatives of a user, or as many of them as there may be, each as likely.
void ItemSampler::draw_hard(const Batch& batch, Random& random, Drawn& drawn) const {
  std::vector<uint32_t> all;
  for (int64_t row = 0; row < batch.rows; ++row) {
    const auto of_user = hard_.items_of(first_key(batch.sparse[user_], static_cast<size_t>(row)));
    all.assign(of_user.begin(), of_user.end());
    const size_t count = std::min(all.size(), static_cast<size_t>(hard_count_));
    for (size_t i = 0; i < count; ++i) {
      if (all.size() > count) std::swap(all[i], all[i + random.below(all.size() - i)]);
      drawn.items.push_back(all[i]);
      drawn.of_row.push_back(row);
    }
  }
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
  const Drawn drawn = draw(batch);
  batch.resize_sequences(space_ + 1);
  HostVector<int32_t>& offsets = batch.sequences[space_].offsets;
  offsets.resize(static_cast<size_t>(batch.rows) + 1);
  std::iota(offsets.begin(), offsets.end(), 0);
  offsets.back() += static_cast<int32_t>(drawn.items.size());
  for (const size_t feature : features_) add_keys(drawn.items, feature, batch);
  add_numbers(drawn.items, batch);
  if (candidates_) candidates_->add_logs(batch);
  if (!are_of_single_rows_) return;
  batch.candidate_of.assign(static_cast<size_t>(offsets.back()), int64_t{-1});
  std::ranges::copy(drawn.of_row, batch.candidate_of.end() - std::ssize(drawn.of_row));
}

}  // namespace emblem
