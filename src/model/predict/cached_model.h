// model/predict/cached_model.h - a model on a GPU whose tables are static and in host memory, with
// a cache of their rows on the GPU. CUDA builds only.
#pragma once

#include <memory>
#include <vector>

#include "embedding/cache/row_cache.h"
#include "embedding/cache/static_rows.h"
#include "model/predict/device_predictor.h"

namespace emblem::cuda {

struct CacheOptions {
  CacheSize size;
  CachePolicy policy = CachePolicy::kLru;
};

// Used by one thread at a time.
class CachedModel {
 public:
  // Tables and parameters are as at the beginning of a training. The context has a stream of its
  // own. `config` says in which precision to compute, which is that of the rows too.
  CachedModel(const Context& context, const config::PipelineConfig& config,
              const FeatureLayout& layout, int64_t max_rows, const CacheOptions& options);

  DevicePredictor& predictor() { return *predictor_; }
  int64_t table_bytes() const;  // in host memory
  int64_t cache_bytes() const;

 private:
  // The tables of a lookup.
  struct Tables {
    std::vector<std::unique_ptr<StaticRows>> rows;
    std::unique_ptr<RowCache> cache;
  };
  std::vector<Tables> tables_;
  std::unique_ptr<DevicePredictor> predictor_;
};

}  // namespace emblem::cuda
