// train/predict/full_retrieval.h - how well a matching model finds what users chose among all
// items.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "train/predict/evaluation.h"
#include "train/predict/pass_watch.h"
#include "train/state/restored.h"

namespace emblem {

struct FullRetrievalOptions {
  std::string input;  // rows of what users chose: columns of the user tower, and the two below
  std::vector<std::string> filters;
  std::string items;    // all items: columns of the item tower and `item_id`; or a faiss folder
  std::string item_id;  // column with the ids of items, whole numbers
  std::string user_id;  // rows of the same value are of one user; empty: each row is one
  std::string seen;     // rows like those of `input`, whose items are not found; or empty
  std::vector<int64_t> most = {10, 50, 100};  // the k of the metrics
};

// Throws Error for options that do not fit each other.
void check_retrieval(const FullRetrievalOptions& options);

// What was found for a user, best first, beside what the user chose.
class RetrievalMetrics {
 public:
  explicit RetrievalMetrics(std::vector<int64_t> most);

  // `chosen` are ascending, each once, and at least one.
  void add(std::span<const int64_t> found, std::span<const int64_t> chosen);

  // Means over users: full_recall@k (share of the chosen items that are found), full_hit_rate@k
  // (share of users with at least one), full_ndcg@k, full_mrr@k (one by the rank of the first). And
  // hitrate@k, as TorchEasyRec has it: found items of all users, divided by their chosen ones.
  std::map<std::string, double> values() const;
  int64_t users() const { return users_; }

 private:
  struct Sums {
    int64_t k;
    double recall = 0, hits = 0, ndcg = 0, reciprocal_rank = 0;
    int64_t found = 0;  // chosen items, of all users
  };

  std::vector<Sums> sums_;  // for each k
  int64_t users_ = 0, chosen_ = 0;
};

// Searches all items for each user, exactly. A user has the features of its first row. Chosen items
// that are not among `items` count as not found; seen items that are chosen, too, are searched.
// `model` was restored for predictions. Throws Error for a model without towers, and for rows whose
// ids are no whole numbers. Evaluation::rows are those of `input`.
Evaluation evaluate_full_retrieval(const Context& context, RestoredModel& model,
                                   const FullRetrievalOptions& options,
                                   const PassWatch& watch = {});

}  // namespace emblem
