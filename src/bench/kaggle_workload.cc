#include "bench/kaggle_workload.h"

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr int64_t kTableRows[] = {203931, 18598,  14092,  7012,   18977, 4,    6385, 1245, 49,
                                  186213, 71328,  67288,  11,     2168,  7338, 61,   4,    932,
                                  15,     204515, 141526, 199433, 60919, 9137, 71,   34};
constexpr int kDense = 13;
constexpr double kPositive = 0.25;

// Streams of random numbers: keys of feature f, dense values, labels.
constexpr uint64_t kDenseStream = 100, kLabelStream = 200;

// In double, as the peer computes it.
double uniform(uint64_t seed, uint64_t stream, int64_t sample) {
  return static_cast<double>(random_bits(seed, stream, static_cast<uint64_t>(sample)) >> 40) /
         16777216.0;
}

int64_t power_law_key(double u, int64_t rows, double alpha) {
  const double top = std::pow(static_cast<double>(rows) + 1.0, 1.0 - alpha);
  const auto key =
      static_cast<int64_t>(std::floor(std::pow(1.0 + u * (top - 1.0), 1.0 / (1.0 - alpha)))) - 1;
  return std::clamp<int64_t>(key, 0, rows - 1);
}

std::string table_setting(BenchTables tables) {
  if (tables == BenchTables::kDynamic)
    return "dynamicemb { max_capacity: 1000000 score_strategy: \"NO_EVICTION\" }";
  std::string list;
  for (const int64_t rows : kTableRows) list += (list.empty() ? "" : ", ") + std::to_string(rows);
  return "num_buckets_each: [" + list + "]";
}

}  // namespace

std::string kaggle_pipeline(int64_t dim, int64_t batch, BenchTables tables) {
  EMBLEM_REQUIRE(dim >= 1, "embedding dimension ", dim, " must be at least 1");
  const std::string bottom = dim == 16 ? "512, 256, 64, 16" : "512, 256, " + std::to_string(dim);
  return cat(R"(
train_config {
  sparse_optimizer { sgd_optimizer { lr: 0.1 } }
  dense_optimizer { sgd_optimizer { lr: 0.1 momentum: 0 } }
  num_steps: 1000000000
}
data_config { dataset_type: RawDataset batch_size: )",
             batch, R"( label_fields: "label" }
feature_configs { raw_feature { feature_name: "I{1..13}" } }
feature_configs { id_feature { feature_name: "C{1..26}" embedding_dim: )",
             dim, " ", table_setting(tables), R"( } }
model_config {
  feature_groups { group_name: "dense" feature_names: "I{1..13}" }
  feature_groups { group_name: "sparse" feature_names: "C{1..26}" }
  dlrm {
    dense_mlp { hidden_units: [)",
             bottom, R"(] }
    final { hidden_units: [512, 256] }
    arch_with_sparse: false
  }
}
)");
}

std::vector<Batch> kaggle_batches(int64_t count, int64_t rows, double alpha, uint64_t seed) {
  EMBLEM_REQUIRE(alpha > 0 && alpha != 1.0, "alpha is ", alpha,
                 "; use a positive exponent other than 1, like 1.05");
  std::vector<Batch> batches(count);
  for (int64_t number = 0; number < count; ++number) {
    Batch& batch = batches[number];
    const int64_t first = number * rows;
    batch.rows = rows;
    batch.dense.resize(rows * kDense);
    batch.labels.resize(rows);
    batch.sparse.resize(std::size(kTableRows));
    for (int64_t row = 0; row < rows; ++row) {
      for (int j = 0; j < kDense; ++j) {
        batch.dense[row * kDense + j] =
            static_cast<float>(uniform(seed, kDenseStream + j, first + row));
      }
      batch.labels[row] = uniform(seed, kLabelStream, first + row) < kPositive ? 1.0f : 0.0f;
    }
    for (size_t feature = 0; feature < std::size(kTableRows); ++feature) {
      auto& keys = batch.sparse[feature].keys;
      keys.resize(rows);
      for (int64_t row = 0; row < rows; ++row) {
        keys[row] = power_law_key(uniform(seed, feature, first + row), kTableRows[feature], alpha);
      }
    }
  }
  return batches;
}

}  // namespace emblem
