#include "bench/train/dlrm_workload.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/math/random.h"
#include "core/text/joined.h"
#include "core/threads/thread_pool.h"
#include "data/synth/synth.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr int kDense = 13;
constexpr double kPositive = 0.25;

// Streams of random numbers: keys of feature f, dense values, labels.
constexpr uint64_t kDenseStream = 100, kLabelStream = 200;

// In double precision, as in bench/peers.
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

// The 26 sparse features, as one line if their tables differ only in size.
std::string sparse_features(const DlrmShape& shape, const DlrmTraining& training) {
  const auto feature = [&](const std::string& name, const std::string& table) {
    return cat("feature_configs { id_feature { feature_name: \"", name,
               "\" embedding_dim: ", shape.dim, " ", table, " } }\n");
  };
  std::string text;
  if (training.tables == BenchTables::kStatic)
    return feature("C{1..26}", "num_buckets_each: [" + joined(shape.table_rows) + "]");
  for (size_t f = 0; f < shape.table_rows.size(); ++f) {
    const int64_t rows = shape.table_rows[f];
    text += feature(cat("C", f + 1), cat("dynamicemb { max_capacity: ", rows,
                                         " init_capacity_per_rank: ", training.reserved ? rows : 0,
                                         " score_strategy: \"",
                                         training.bounded ? "TIMESTAMP" : "NO_EVICTION", "\" }"));
  }
  return text;
}

std::string optimizers(const std::string& name) {
  if (name == "sgd")
    return "sparse_optimizer { sgd_optimizer { lr: 0.1 } } "
           "dense_optimizer { sgd_optimizer { lr: 0.1 momentum: 0 } }";
  // Dense weights have no rows: AdaGrad replaces row-wise AdaGrad.
  const std::string dense = name == "rowwise_adagrad" ? "adagrad" : name;
  return cat("sparse_optimizer { ", name, "_optimizer { lr: 0.004 } } dense_optimizer { ", dense,
             "_optimizer { lr: 0.004 } }");
}

void fill_keys(const DlrmShape& shape, size_t feature, int64_t first, double alpha, uint64_t seed,
               Batch& batch) {
  SparseColumn& column = batch.sparse[feature];
  const int64_t hotness = shape.hotness_of(feature);
  column.keys.resize(batch.rows * hotness);
  for (int64_t i = 0; i < batch.rows * hotness; ++i) {
    column.keys[i] = power_law_key(uniform(seed, feature, first * hotness + i),
                                   shape.table_rows[feature], alpha);
  }
  if (hotness == 1) return;
  column.offsets.resize(batch.rows + 1);
  for (int64_t row = 0; row <= batch.rows; ++row)
    column.offsets[row] = static_cast<int32_t>(row * hotness);
}

void fill_dense(int64_t first, uint64_t seed, Batch& batch) {
  batch.dense.resize(batch.rows * kDense);
  batch.labels.resize(batch.rows);
  for (int64_t row = 0; row < batch.rows; ++row) {
    for (int j = 0; j < kDense; ++j) {
      batch.dense[row * kDense + j] =
          static_cast<float>(uniform(seed, kDenseStream + j, first + row));
    }
    batch.labels[row] = uniform(seed, kLabelStream, first + row) < kPositive ? 1.0f : 0.0f;
  }
}

}  // namespace

DlrmShape DlrmShape::scaled_down(int64_t divisor) const {
  EMBLEM_REQUIRE(divisor >= 1, "tables cannot be divided by ", divisor, "; expected at least 1");
  DlrmShape smaller = *this;
  if (divisor == 1) return smaller;
  for (int64_t& rows : smaller.table_rows)
    rows = std::max(std::min<int64_t>(4, rows), rows / divisor);
  smaller.name += cat("-tables/", divisor);
  return smaller;
}

int64_t DlrmShape::rows() const {
  return std::accumulate(table_rows.begin(), table_rows.end(), int64_t{0});
}

int64_t DlrmShape::table_bytes() const { return rows() * dim * 4; }

DlrmShape kaggle_dlrm(int64_t dim) {
  EMBLEM_REQUIRE(dim >= 1, "embedding dimension ", dim, " must be at least 1");
  return {.name = "dlrm-kaggle",
          .table_rows = synth_cardinalities({.tables = "kaggle"}),
          .dim = dim,
          .bottom = dim == 16 ? "512, 256, 64, 16" : cat("512, 256, ", dim),
          .top = "512, 256"};
}

DlrmShape hps_dlrm() {
  return {.name = "hps-dlrm",
          .table_rows = synth_cardinalities({.tables = "fl15"}),
          .dim = 128,
          .bottom = "512, 256, 128",
          .top = "1024, 1024, 512, 256"};
}

DlrmShape dle_dlrm() {
  DlrmShape shape = hps_dlrm();
  shape.name = "dle-dlrm";
  return shape;
}

namespace {

constexpr char kWide[] =
    "feature_groups { group_name: 'wide' group_type: WIDE feature_names: 'C{1..26}' feature_names: "
    "'I{1..13}' } ";
constexpr char kDeep[] =
    "feature_groups { group_name: 'deep' feature_names: 'I{1..13}' feature_names: 'C{1..26}' } ";

const std::vector<std::pair<std::string, std::string>>& model_texts() {
  static const std::string deep = "deep { hidden_units: [1024, 1024, 1024] }";
  static const std::vector<std::pair<std::string, std::string>> all = {
      {"criteo-dnn", cat(kDeep, "dnn { ", deep, " }")},
      {"criteo-wide-and-deep", cat(kWide, kDeep, "wide_and_deep { ", deep, " }")},
      {"criteo-deepfm", cat(kWide, kDeep, "deepfm { ", deep, " }")},
      {"criteo-dcn", cat(kDeep, "dcn_v1 { cross { cross_num: 3 } ", deep, " }")},
      {"criteo-dcnv2", cat(kDeep, "dcn_v2 { cross { cross_num: 3 low_rank: 64 } ", deep, " }")}};
  return all;
}

}  // namespace

const std::vector<std::string>& criteo_models() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, text] : model_texts()) all.push_back(name);
    return all;
  }();
  return names;
}

DlrmShape criteo_model(const std::string& name) {
  DlrmShape shape = hps_dlrm();
  shape.name = name;
  shape.dim = 16;
  for (const auto& [known, text] : model_texts())
    if (known == name) shape.model = text;
  EMBLEM_REQUIRE(!shape.model.empty(), "unknown model \"", name, "\"");
  return shape;
}

DlrmShape kaggle_model(const std::string& name, int64_t dim) {
  DlrmShape shape = kaggle_dlrm(dim);
  if (name == shape.name) return shape;
  shape.name = name;
  shape.model = criteo_model("criteo-" + name.substr(0, name.find('-'))).model;
  return shape;
}

DlrmShape sok_dlrm() {
  return {.name = "sok-dlrm",
          .table_rows = synth_cardinalities({.tables = "criteo-40m"}),
          .dim = 128,
          .bottom = "512, 256, 128",
          .top = "1024, 1024, 512, 256"};
}

DlrmShape mlperf_dcnv2() {
  return {.name = "mlperf-dcnv2",
          .table_rows = {40000000, 39060,    17295,    7424,     20265,  3,     7122, 1543, 63,
                         40000000, 3067956,  405282,   10,       2209,   11938, 155,  4,    976,
                         14,       40000000, 40000000, 40000000, 590152, 12973, 108,  36},
          .dim = 128,
          .bottom = "512, 256, 128",
          .top = "1024, 1024, 512, 256",
          .hotness = {3, 2, 1, 2, 6, 1, 1,  1,   1,  7,  3, 8, 1,
                      6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1},
          .cross_rank = 512};
}

static std::string model_of(const DlrmShape& shape) {
  if (!shape.model.empty()) return shape.model;
  const std::string cross =
      shape.cross_rank > 0 ? cat("cross { cross_num: 3 low_rank: ", shape.cross_rank, " }") : "";
  return cat(R"(
  feature_groups { group_name: "dense" feature_names: "I{1..13}" }
  feature_groups { group_name: "sparse" feature_names: "C{1..26}" }
  dlrm {
    dense_mlp { hidden_units: [)",
             shape.bottom, R"(] }
    final { hidden_units: [)",
             shape.top, R"(] }
    arch_with_sparse: false
    )",
             cross, R"(
  }
)");
}

std::string dlrm_pipeline(const DlrmShape& shape, int64_t batch, const DlrmTraining& training) {
  return cat(
      "train_config { ", optimizers(training.optimizer),
      " num_steps: 1000000000 }\n"
      "data_config { dataset_type: RawDataset fg_mode: FG_DAG label_fields: \"label\" batch_size: ",
      batch,
      " }\n"
      "feature_configs { raw_feature { feature_name: \"I{1..13}\" normalizer: "
      "\"method=log,offset=3\" } }\n",
      sparse_features(shape, training), "model_config {", model_of(shape), "}\n");
}

std::vector<Batch> dlrm_batches(const Context& context, const DlrmShape& shape, int64_t count,
                                int64_t rows, double alpha, uint64_t seed) {
  EMBLEM_REQUIRE(alpha > 0 && alpha != 1.0, "alpha is ", alpha,
                 "; use a positive exponent other than 1, like 1.05");
  const auto features = static_cast<int64_t>(shape.table_rows.size());
  std::vector<Batch> batches(count);
  for (Batch& batch : batches) {
    batch.rows = rows;
    batch.sparse.resize(features);
  }
  parallel_for(context, count * (features + 1), 1, [&](int64_t piece, int64_t) {
    const int64_t number = piece / (features + 1), feature = piece % (features + 1);
    if (feature == features)
      fill_dense(number * rows, seed, batches[number]);
    else
      fill_keys(shape, feature, number * rows, alpha, seed, batches[number]);
  });
  return batches;
}

}  // namespace emblem
