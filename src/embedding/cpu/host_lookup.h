// embedding/cpu/host_lookup.h - features over tables in host memory.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "core/memory/host_vector.h"
#include "embedding/cpu/chunks.h"
#include "embedding/cpu/gather_pool.h"
#include "embedding/cpu/grouping.h"
#include "embedding/cpu/host_table.h"
#include "embedding/lookup.h"

namespace emblem {

// Where the vectors of a feature are in a block of floats: that of bag b begins at first + b *
// stride.
struct FeaturePlace {
  int64_t first = 0;
  int64_t stride = 0;
};
// The place of a feature whose rows are not read: only new keys get rows.
inline constexpr FeaturePlace kNotRead = {-1, 0};

// Gives the same bytes with any number of threads. Allocates nothing after its largest batch.
//
// Between a training forward and its backward nothing else may change the tables; evaluation is
// allowed. Rows without pooling are a feature with one key per bag.
class HostLookup : public Lookup {
 public:
  explicit HostLookup(std::span<const LookupFeature> features);

  int64_t width() const override { return width_; }
  int64_t column(int feature) const {
    return columns_[static_cast<size_t>(feature)].first;
  }                                                               // where its vector begins
  std::span<HostTable* const> tables() const { return tables_; }  // each once

  // Throws for keys outside a static table (the first in the order of features), and when a table
  // is full.
  void forward(const Context& context, std::span<const FeatureKeys> features, Phase phase,
               AnyView out) override;
  // Groups the keys and takes the memory that backward needs: it fails before any row has changed.
  void prepare_backward(const Context& context, ConstAnyView gradients) override;
  double squared_gradient_norm(const Context& context, ConstAnyView gradients) override;
  void add_squared_gradient_norm(const Context& context, ConstAnyView gradients,
                                 ExactSum& sum) override;
  void backward(const Context& context, ConstAnyView gradients, float scale, float learning_rate,
                int64_t step) override;
  std::vector<LookupCounts> take_counts(const Context& context) override;

  // The same for features that have a number of bags and a place each. All places are below 2^32.
  // `counted` says by table() whether its gradients are added.
  void forward_at(const Context& context, std::span<const FeatureKeys> features, Phase phase,
                  std::span<const FeaturePlace> places, float* out);
  void add_squared_gradient_norm_at(const Context& context, std::span<const FeaturePlace> places,
                                    const float* gradients, std::span<const uint8_t> counted,
                                    ExactSum& sum);
  void backward_at(const Context& context, std::span<const FeaturePlace> places,
                   const float* gradients, float scale, float learning_rate, int64_t step);

 private:
  struct Feature {
    HostTable* table;
    Pooling pooling;
    size_t table_number;
  };
  // The keys of a forward pass and their rows.
  struct FoundKeys {
    std::vector<FeatureKeys> keys;  // per feature
    std::vector<HostVector<uint32_t>>
        rows;                         // per feature over a dynamic table: the row of each key
    std::vector<GatherPool> gathers;  // per feature
    int64_t bags = 0;                 // the largest number of a feature
  };

  void check_offsets(std::span<const FeatureKeys> features) const;
  void find_rows(const Context& context, FoundKeys& found);
  void count_missing(const Context& context, const FoundKeys& found);
  void insert_rows(const Context& context, FoundKeys& found);
  void note_absent(const FoundKeys& found) const;
  void gather(const Context& context, FoundKeys& found, Phase phase,
              std::span<const FeaturePlace> places, float* out);
  void gather_block(const FoundKeys& found, int64_t begin, int64_t end);
  void refuse_bad_keys(const FoundKeys& found) const;

  void check_order() const;
  void check_gradients(View<const float> gradients) const;
  void group(const Context& context, std::span<const FeaturePlace> places);
  void list_segments(const float* gradients, float scale, std::span<const uint8_t> counted = {});
  void update_other_rows(const Context& context, size_t table, const Rule& rule,
                         uint32_t rounding_draw);

  std::vector<Feature> features_;
  std::vector<FeaturePlace> columns_;  // columns of [bags, width] matrices
  std::vector<Table*> feature_tables_;
  std::vector<HostTable*> tables_;
  int64_t width_ = 0;
  FoundKeys train_, eval_;
  std::atomic<bool> bad_key_{false};
  std::vector<std::atomic<int64_t>>
      missing_;                            // per feature: values of the running pass without row
  std::vector<LookupCounts> counts_;       // per feature, since the last take_counts
  std::vector<std::vector<KeyRun>> runs_;  // per table, of the training pass

  enum class Backward { kNothing, kForwardDone, kGrouped };
  Backward backward_ = Backward::kNothing;             // state of the last training pass
  std::vector<Grouping> groupings_;                    // per table
  std::vector<std::vector<Occurrences>> occurrences_;  // per table
  std::vector<SegmentUpdate> updates_;                 // per (trained table, part)
  std::vector<size_t> update_tables_;
  std::vector<double> norms_;
  std::vector<uint8_t> in_batch_;  // per row of one table
  Chunks find_chunks_, insert_chunks_, slice_chunks_, part_chunks_, segment_chunks_;
};

}  // namespace emblem
