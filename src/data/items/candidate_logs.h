// data/items/candidate_logs.h - how often items are candidates of a row by chance, which the loss
// of a matching model corrects their scores by.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "config/feature/features.h"
#include "data/batch.h"
#include "data/source/storage.h"

namespace emblem {

// The share of each item in a sum of weights.
class ItemShares {
 public:
  ItemShares() = default;
  // Weights of rows of `keys`, those of equal items add up; their sum is above 0.
  ItemShares(const std::vector<double>& weights, const SparseColumn& keys);

  // Of an item that is not there or has no weight: that of the item with the least weight above 0.
  double operator()(int64_t key) const;

 private:
  std::unordered_map<int64_t, double> shares_;
  double least_ = 0.0;
};

// Items that are candidates of a row by chance. Const methods may run concurrently.
class CandidateDraws {
 public:
  // Of a layout whose candidates have_frequency. Reads CandidateSpec::frequency_path, where that is
  // set: a text file with the columns "id:int64<TAB>weight:float", which others may follow, that
  // says how often rows have items. Throws Error with file and line for what is not so.
  CandidateDraws(const config::DataConfig& data, const FeatureLayout& layout,
                 const Storage& storage);

  // Batches have `count` items that are sampled by weight; `items`: features of those with weights.
  void set_sampled(int64_t count, const std::vector<double>& weights, const Batch& items);

  // Sets Batch::candidate_logs: of each of its items, the logarithm of how often an item of this id
  // is among the items of its rows, where these are candidates, and among the sampled ones.
  void add_logs(Batch& batch) const;

 private:
  size_t item_ = 0;                    // what tells items apart, in Batch::sparse
  bool are_all_items_ = false;         // items of all rows are candidates
  int64_t count_ = 0;                  // of sampled items
  std::optional<ItemShares> of_rows_;  // none: as often as they are sampled
  ItemShares sampled_;
};

}  // namespace emblem
