// emblem/lookup.h - features over tables: keys in, pooled rows out, gradients back. Made for the
// inside of a training loop: pointers to memory of the caller's, nothing is copied or allocated
// after the largest batch, and on a GPU nothing waits.
//
// A feature has bags of keys, one for each row of a batch. Its vector is the sum or mean of the
// rows of the bag; vectors of all features are side by side. Features may name the same table: the
// gradients of a key are then summed over all of them before its row is updated once.
//
//   Lookup lookup({{&users}, {&items, "mean"}});
//   lookup.forward({{.keys = user}, {.keys = seen, .offsets = bounds}}, Pass::kTraining, out);
//   ...                                     // out is [rows, lookup.width()]; so are gradients
//   lookup.backward(gradients);
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "emblem/api.h"
#include "emblem/table.h"

namespace emblem {
EMBLEM_PUBLIC {
  struct LookupFeature {
    const Table* table = nullptr;  // read by the constructor of the lookup alone
    std::string pooling = "sum";   // or "mean": by the sum of weights. An empty bag: zeros
  };

  // The keys of a feature in a batch, in memory of the tables' device (LookupOptions::host_memory).
  struct FeatureKeys {
    std::span<const int64_t> keys;
    // [rows + 1]: bag i is keys [offsets[i], offsets[i + 1]), the first is 0, the last the number
    // of keys. Empty: keys has one per row.
    std::span<const int32_t> offsets = {};
    std::span<const float> weights = {};  // one per key; empty: all are 1
  };

  // What a step of training is. Rows are updated once per key, with the sum of its gradients.
  struct Update {
    // 0 or more; absent: that of the tables' optimizer, the same for all.
    std::optional<float> learning_rate = {};
    float scale = 1;  // factor of gradients
  };

  // Keys of a feature since the last call of take_counts, and those of them that had no row: in
  // inference keys that a dynamic table does not have, in training those that were not admitted.
  struct LookupCounts {
    int64_t keys = 0, missing = 0;
  };

  struct LookupOptions {
    int threads = 0;            // compute threads on a CPU; 0: one per CPU
    bool deterministic = true;  // on a GPU: sums are in a fixed order; false is faster
    // Keys, outputs and gradients are in host memory though tables are on a GPU: they are copied
    // and waited for. Without meaning on a CPU.
    bool host_memory = false;
  };

  // Used by one thread at a time. Several lookups may read the same tables in inference, at once on
  // a CPU; one alone trains a table: another that tries throws until the first has ended. Nothing
  // else changes the tables while a function runs.
  //
  // On a GPU functions enqueue work on the tables' stream and return; keys, outputs and gradients
  // are device memory, and what kernels find wrong (keys outside of a static table, a full table)
  // is thrown by a later call, at the latest by check().
  class EMBLEM_API Lookup {
   public:
    // Tables on one device and, there, on one stream. Throws kInvalidArgument where they are not.
    explicit Lookup(const std::vector<LookupFeature>& features, const LookupOptions& options = {});
    ~Lookup();
    Lookup(Lookup&&) noexcept;
    Lookup& operator=(Lookup&&) noexcept;

    int64_t width() const;  // floats of an output row: the dims of all features

    // Writes the vectors of a batch, [rows, width()]. `features` has one entry per feature. After a
    // training pass keys, offsets and weights stay as they are until backward has returned (on a
    // GPU: has run). Throws Error that names the feature where sizes do not fit, offsets do not
    // rise or a key is not one of a static table; a pass that throws may have given keys rows.
    void forward(std::span<const FeatureKeys> features, Pass pass, float* out);
    void forward(std::initializer_list<FeatureKeys> features, Pass pass, float* out) {
      forward(std::span<const FeatureKeys>(features.begin(), features.size()), pass, out);
    }

    // Announces the keys of the next training pass of tables in host memory with a cache on a GPU
    // ("cache", "host"), so that their rows are brought while other work runs. Best called between
    // forward and backward; the keys stay as they are until the next backward. No result depends on
    // it. Does nothing for other tables, and with host_memory.
    void prefetch(std::span<const FeatureKeys> features);

    // Updates the rows of the last training pass by gradients of its output, [rows, width()]. Once
    // per pass. Throws where there was none, and where a table was changed from outside since then.
    // A table whose optimizer depends on the number of updates (adam, partial_rowwise_adam,
    // momentum) has had as many as any other of the lookup: a training pass throws where it has had
    // fewer. Tables of different ages have lookups of their own.
    void backward(const float* gradients, const Update& update = {});

    // Waits for passes on a GPU, and throws their errors. Nothing to do on a CPU.
    void check();
    // One entry per feature. Waits on a GPU.
    std::vector<LookupCounts> take_counts();

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

}  // namespace api
}  // namespace emblem
