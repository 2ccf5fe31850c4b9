// data/loader/item_sampler.h - items that are sampled as negatives of a batch, which all its rows
// share.
#pragma once

#include <optional>
#include <vector>

#include "core/math/random.h"
#include "data/items/candidate_logs.h"
#include "data/items/edge_lists.h"
#include "data/loader/item_catalogue.h"
#include "data/loader/loader.h"

namespace emblem {

// Draws by an item's weight, in constant time (Walker's alias method).
class WeightedDraw {
 public:
  explicit WeightedDraw(const std::vector<double>& weights);  // whose sum is above 0
  size_t operator()(Random& random) const;

 private:
  std::vector<float> keep_;      // the chance to stay where a draw fell
  std::vector<uint32_t> other_;  // where it goes otherwise
};

// Const methods may run concurrently.
class ItemSampler {
 public:
  // `layout` is that of batches with items. Data that are read without labels, for predictions, get
  // no negatives.
  ItemSampler(const config::DataConfig& data, const FeatureLayout& layout,
              const LoaderOptions& options);

  // Makes a batch of layout_of_rows() one with items: those of its rows, then as many as num_sample
  // says, drawn with replacement; then hard negatives of each row, in the order of the rows. What
  // is drawn depends on the seed, the stream and the place of the batch in the data alone.
  //
  // Of negative_sampler, by weight; an item of one of the rows is drawn again, three times at most.
  // Of samplers with positive edges, of all items that have one, each as likely. Negatives are
  // dealt out to the rows in their order; an item of this row or an earlier one, or that a user of
  // theirs has an edge to, is drawn again, five times at most.
  void add_items(Batch& batch) const;

 private:
  struct Drawn {
    std::vector<size_t> items;    // rows of the catalogue
    std::vector<int64_t> of_row;  // of hard negatives, the last ones of `items`
  };
  void read_edges(const config::DataConfig& data, const FeatureLayout& layout,
                  const ItemSamplerSpec& sampler, const Storage& storage);
  void count_candidates(const config::DataConfig& data, const FeatureLayout& layout,
                        const Storage& storage);
  Drawn draw(const Batch& batch) const;
  void draw_by_weight(const Batch& batch, Random& random, std::vector<size_t>& drawn) const;
  void draw_uniformly(const Batch& batch, Random& random, std::vector<size_t>& drawn) const;
  void draw_hard(const Batch& batch, Random& random, Drawn& drawn) const;
  void add_keys(const std::vector<size_t>& drawn, size_t feature, Batch& batch) const;
  void add_numbers(const std::vector<size_t>& drawn, Batch& batch) const;

  uint64_t seed_;
  int64_t count_ = 0, hard_count_ = 0;
  size_t space_ = 0;                      // in Batch::sequences
  int64_t row_cols_ = 0, item_cols_ = 0;  // numbers of a row, and those of items behind them
  std::vector<size_t> features_;          // positions of the items' keys in Batch::sparse
  size_t id_ = 0;                         // the one that tells items from another
  size_t user_ = 0;                       // the one that tells users apart, where edges are read
  ItemCatalogue catalogue_;
  std::vector<WeightedDraw> draw_;  // none where nothing is drawn by weight
  EdgeLists positive_, hard_;
  std::vector<uint32_t> choice_;              // that are drawn uniformly
  std::optional<CandidateDraws> candidates_;  // where batches say how often items are candidates
  bool are_of_single_rows_ = false;           // batches say which row items are candidates of
};

}  // namespace emblem
