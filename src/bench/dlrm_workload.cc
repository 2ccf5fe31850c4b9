#include "bench/dlrm_workload.h"

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "core/thread_pool.h"
#include "emblem/error.h"

namespace emblem {
namespace {

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

std::string table_setting(const DlrmShape& shape, BenchTables tables) {
  if (tables == BenchTables::kDynamic) {
    const int64_t most = *std::max_element(shape.table_rows.begin(), shape.table_rows.end());
    return cat("dynamicemb { max_capacity: ", std::max<int64_t>(1000000, most),
               " score_strategy: \"NO_EVICTION\" }");
  }
  std::string list;
  for (const int64_t rows : shape.table_rows)
    list += (list.empty() ? "" : ", ") + std::to_string(rows);
  return "num_buckets_each: [" + list + "]";
}

}  // namespace

DlrmShape DlrmShape::scaled_down(int64_t divisor) const {
  EMBLEM_REQUIRE(divisor >= 1, "tables cannot be divided by ", divisor);
  DlrmShape smaller = *this;
  for (int64_t& rows : smaller.table_rows) rows = std::max<int64_t>(4, rows / divisor);
  if (divisor > 1) smaller.name += cat("-tables/", divisor);
  return smaller;
}

int64_t DlrmShape::table_bytes() const {
  int64_t rows = 0;
  for (const int64_t one : table_rows) rows += one;
  return rows * dim * 4;
}

DlrmShape kaggle_dlrm(int64_t dim) {
  EMBLEM_REQUIRE(dim >= 1, "embedding dimension ", dim, " must be at least 1");
  return {.name = "dlrm-kaggle",
          .table_rows = {203931, 18598,  14092,  7012,   18977, 4,    6385, 1245, 49,
                         186213, 71328,  67288,  11,     2168,  7338, 61,   4,    932,
                         15,     204515, 141526, 199433, 60919, 9137, 71,   34},
          .dim = dim,
          .bottom = dim == 16 ? "512, 256, 64, 16" : cat("512, 256, ", dim),
          .top = "512, 256"};
}

DlrmShape hps_dlrm() {
  return {.name = "hps-dlrm",
          .table_rows = {7912889, 33823,   17139,   7339,    20046,  4,     7105, 1382, 63,
                         5554114, 582469,  245828,  11,      2209,   10667, 104,  4,    968,
                         15,      8165896, 2675940, 7156453, 302516, 12022, 97,   35},
          .dim = 128,
          .bottom = "512, 256, 128",
          .top = "1024, 1024, 512, 256"};
}

std::string dlrm_pipeline(const DlrmShape& shape, int64_t batch, BenchTables tables) {
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
             shape.dim, " ", table_setting(shape, tables), R"( } }
model_config {
  feature_groups { group_name: "dense" feature_names: "I{1..13}" }
  feature_groups { group_name: "sparse" feature_names: "C{1..26}" }
  dlrm {
    dense_mlp { hidden_units: [)",
             shape.bottom, R"(] }
    final { hidden_units: [)",
             shape.top, R"(] }
    arch_with_sparse: false
  }
}
)");
}

std::vector<Batch> dlrm_batches(const DlrmShape& shape, int64_t count, int64_t rows, double alpha,
                                uint64_t seed, const Context& context) {
  EMBLEM_REQUIRE(alpha > 0 && alpha != 1.0, "alpha is ", alpha,
                 "; use a positive exponent other than 1, like 1.05");
  std::vector<Batch> batches(count);
  parallel_for(context, count, 1, [&](int64_t number, int64_t) {
    Batch& batch = batches[number];
    const int64_t first = number * rows;
    batch.rows = rows;
    batch.dense.resize(rows * kDense);
    batch.labels.resize(rows);
    batch.sparse.resize(shape.table_rows.size());
    for (int64_t row = 0; row < rows; ++row) {
      for (int j = 0; j < kDense; ++j) {
        batch.dense[row * kDense + j] =
            static_cast<float>(uniform(seed, kDenseStream + j, first + row));
      }
      batch.labels[row] = uniform(seed, kLabelStream, first + row) < kPositive ? 1.0f : 0.0f;
    }
    for (size_t feature = 0; feature < shape.table_rows.size(); ++feature) {
      auto& keys = batch.sparse[feature].keys;
      keys.resize(rows);
      for (int64_t row = 0; row < rows; ++row) {
        keys[row] =
            power_law_key(uniform(seed, feature, first + row), shape.table_rows[feature], alpha);
      }
    }
  });
  return batches;
}

}  // namespace emblem
