#include "data/items/candidate_logs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "config/feature/items.h"
#include "core/text/text.h"
#include "data/items/id_file.h"
#include "data/items/text_rows.h"
#include "emblem/error.h"

namespace emblem {

ItemShares::ItemShares(const std::vector<double>& weights, const SparseColumn& keys) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i < weights.size(); ++i)
    if (weights[i] > 0) shares_[first_key(keys, i)] += weights[i] / sum;
  least_ = 1.0;
  for (const auto& [key, share] : shares_) least_ = std::min(least_, share);
}

double ItemShares::operator()(int64_t key) const {
  const auto found = shares_.find(key);
  return found == shares_.end() ? least_ : found->second;
}

namespace {

ItemShares read_item_shares(const config::DataConfig& data, const FeatureLayout& layout,
                            const Storage& storage) {
  const std::string &item = layout.candidates.item_id, &path = layout.candidates.frequency_path;
  const auto sampler = item_sampler_of(data);
  const FeatureLayout alone = layout_of_feature(layout, item);
  const FeatureSpec& feature = alone.find(item);
  TextRows rows(data, alone, {feature.column}, path);
  std::vector<double> weights;
  for (IdFile file(path, {"id:int64", "weight:float"}, sampler ? sampler->field_delimiter : '\t',
                   storage);
       file.next();) {
    weights.push_back(file.weight(1));
    const std::string problem = rows.add({file[0]});
    if (!problem.empty()) file.fail(problem);
  }
  if (!(std::accumulate(weights.begin(), weights.end(), 0.0) > 0))
    throw Error(ErrorCode::kInvalidArgument,
                cat(path,
                    " has no items with a weight above 0, which says how often rows have "
                    "them"));
  const Batch features = rows.features();
  return ItemShares(weights, features.sparse[static_cast<size_t>(feature.sparse_index)]);
}

}  // namespace

CandidateDraws::CandidateDraws(const config::DataConfig& data, const FeatureLayout& layout,
                               const Storage& storage)
    : item_(static_cast<size_t>(layout.find(layout.candidates.item_id).sparse_index)),
      are_all_items_(layout.candidates.are_all_items) {
  const std::string& path = layout.candidates.frequency_path;
  if (!path.empty())
    of_rows_ = read_item_shares(data, layout, storage_of_files(data, {path}, storage));
}

void CandidateDraws::set_sampled(int64_t count, const std::vector<double>& weights,
                                 const Batch& items) {
  count_ = count;
  sampled_ = ItemShares(weights, items.sparse[item_]);
}

void CandidateDraws::add_logs(Batch& batch) const {
  const SparseColumn& keys = batch.sparse[item_];
  const size_t items = keys.offsets.empty() ? keys.keys.size() : keys.offsets.size() - 1;
  const ItemShares& shares_of_rows = of_rows_ ? *of_rows_ : sampled_;
  batch.candidate_logs.resize(items);
  for (size_t i = 0; i < items; ++i) {
    const int64_t key = first_key(keys, i);
    double expected = 0.0;
    if (are_all_items_) expected += static_cast<double>(batch.rows) * shares_of_rows(key);
    if (count_ > 0) expected += static_cast<double>(count_) * sampled_(key);
    batch.candidate_logs[i] = static_cast<float>(std::log(expected));
  }
}

}  // namespace emblem
