// model/predict/device_predictor.h - a trained model as a function on a GPU. CUDA builds only.
//
// A batch is copied to the GPU at once; then one CUDA graph finds its rows, computes and writes the
// probabilities to host memory. There is a graph for each of a few numbers of rows, and a batch
// runs in the next larger one. Nothing is allocated once a number of rows has come.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/device/cuda_graph.h"
#include "core/device/stream.h"
#include "core/memory/pinned.h"
#include "embedding/cache/cached_rows.h"
#include "embedding/cache/missing_row_source.h"
#include "model/predict/predictor.h"
#include "nn/inference/inference.h"

namespace emblem::cuda {

// Rows of a lookup of the model.
struct PredictorLookup {
  std::unique_ptr<CachedRows> rows;
  std::unique_ptr<MissingRowSource> missing;  // null: the GPU reads all rows itself
  uint64_t pass = 0;                          // under way
};

class DevicePredictor final : public Predictor {
 public:
  // What of the model it does not run; "" where it runs all. Use PlainPredictor for such models.
  static std::string unsupported_part(const Model& model);

  // `model` was made on the context's GPU for max_rows rows, without lookups, and has its
  // parameters; there is one of `lookups` for each of its lookup_inputs(), with its features. The
  // context has a stream of its own.
  DevicePredictor(const Context& context, std::unique_ptr<Model> model,
                  std::vector<PredictorLookup> lookups, int64_t max_rows);
  ~DevicePredictor() override;

  // Makes the graphs of all numbers of rows, so that no batch has to wait for one.
  void warm_up();

  // A row has at most one key of each feature. The outputs are probabilities.
  using Predictor::run;
  void run(const Context& context, const ModelBatch& batch,
           std::span<const PredictedOutput> outputs) override;
  Model& model() override { return *model_; }

  // ---- the parts of run, for a batch of at most max_rows rows ----
  void copy_in(const ModelBatch& batch);  // enqueues it
  void wait() const { context_.synchronize(); }
  void compute();  // waits for the end
  std::span<const float> probabilities() const;

  // Lookups and misses of all computed batches.
  struct CacheCounts {
    int64_t lookups = 0, missed = 0, distinct = 0, absent = 0;
  };
  CacheCounts counts() const { return counts_; }

 private:
  // The graphs of a number of rows.
  struct Bucket {
    std::unique_ptr<CudaGraph> all, again;  // again: without the lookup
  };
  int64_t bucket_of(int64_t rows) const;
  Bucket& ready(int64_t rows);
  void check(const ModelBatch& batch) const;
  void enqueue_copy(const ModelBatch& batch);  // which was checked
  void lay_out(int64_t rows);
  void enqueue(int64_t rows);
  void find(int64_t rows);
  void enqueue_rest(int64_t rows, Inference::Order order);  // what follows the lookup
  void launch(const CudaGraph& graph);
  bool bring_missing();

  Context context_;
  std::unique_ptr<Model> model_;
  std::vector<PredictorLookup> lookups_;
  std::vector<Model::LookupInput> inputs_;
  BatchPiece piece_;
  int64_t max_rows_ = 0, dense_cols_ = 0;
  Stream side_;  // what needs no rows of tables runs in parallel to their lookup
  Event fork_, join_;
  std::unique_ptr<PinnedMemory> host_input_, host_output_;
  std::unique_ptr<PinnedMemory> done_;  // a number that the GPU sets
  Buffer<char> input_;
  std::unique_ptr<Inference> inference_;
  std::map<int64_t, Bucket> buckets_;
  int64_t rows_ = 0, bucket_ = 0;   // rows and bucket of the batch that was copied in
  std::vector<size_t> key_begins_;  // begins of lookups in the input, for the bucket
  size_t input_bytes_ = 0;          // likewise
  bool copying_ = false;            // a batch may still be on its way to the GPU
  bool finished_ = true;            // the last compute() came to its end
  CacheCounts counts_;
};

}  // namespace emblem::cuda
