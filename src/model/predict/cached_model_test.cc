// A model on a GPU with a cache of its rows against the same model on the CPU.
#include <gtest/gtest.h>

#include "config/feature/features.h"
#include "config/load/load.h"
#include "core/device/device_test.h"
#include "core/math/random.h"
#include "model/predict/cached_model.h"

namespace emblem {
namespace {

constexpr int64_t kTables = 5, kDense = 3;
constexpr int64_t kTableRows[kTables] = {4, 100, 1000, 20000, 5000};

std::string pipeline(const std::string& model, int64_t dim) {
  std::string text = cat(R"(
train_config { sparse_optimizer { sgd_optimizer { lr: 0.1 } }
  dense_optimizer { sgd_optimizer { lr: 0.1 momentum: 0 } } num_steps: 1 }
data_config { dataset_type: RawDataset fg_mode: FG_DAG batch_size: 64 label_fields: "label" }
feature_configs { raw_feature { feature_name: "I{1..3}" } }
feature_configs { id_feature { feature_name: "C{1..5}" embedding_dim: )",
                         dim, R"( num_buckets_each: [4, 100, 1000, 20000, 5000]
  init_fn: "nn.init.uniform_,a=-0.5,b=0.5" } }
model_config {
  feature_groups { group_name: "dense" feature_names: "I{1..3}" }
  feature_groups { group_name: "sparse" feature_names: "C{1..5}" }
)",
                         model, " }");
  return text;
}
std::string dlrm(int64_t dim, const std::string& more = "arch_with_sparse: false") {
  return pipeline(cat("dlrm { dense_mlp { hidden_units: [64, ", dim,
                      "] } final { hidden_units: [64, 32] } ", more, " }"),
                  dim);
}

template <class T>
View<const T> view_of(const std::vector<T>& values) {
  return {values.data(), static_cast<int64_t>(values.size()), 1};
}

struct Inputs {
  std::vector<float> dense;
  std::vector<std::vector<int64_t>> keys;
  std::vector<std::vector<int32_t>> offsets;
  std::vector<FeatureKeys> features;
  ModelBatch batch;
};

// Frequent keys are small, as in real data. Of every other feature a fifth of the rows have none.
Inputs make_inputs(int64_t rows, uint64_t seed) {
  Inputs inputs;
  for (int64_t i = 0; i < rows * kDense; ++i)
    inputs.dense.push_back(random_uniform(seed, 100, static_cast<uint64_t>(i)) * 2 - 1);
  for (int64_t f = 0; f < kTables; ++f) {
    auto& keys = inputs.keys.emplace_back();
    auto& offsets = inputs.offsets.emplace_back();
    for (int64_t r = 0; r < rows; ++r) {
      if (f % 2 == 1) offsets.push_back(static_cast<int32_t>(keys.size()));
      if (f % 2 == 1 && random_bits(seed, 200, static_cast<uint64_t>(r)) % 5 == 0) continue;
      const double u = random_uniform(seed, static_cast<uint64_t>(f), static_cast<uint64_t>(r));
      keys.push_back(static_cast<int64_t>(u * u * u * static_cast<double>(kTableRows[f])));
    }
    if (f % 2 == 1) offsets.push_back(static_cast<int32_t>(keys.size()));
  }
  for (int64_t f = 0; f < kTables; ++f)
    inputs.features.push_back({view_of(inputs.keys[f]), view_of(inputs.offsets[f]), {}});
  inputs.batch.rows = rows;
  inputs.batch.dense = {inputs.dense.data(), rows, kDense};
  return inputs;
}

class CachedModelTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!device_is_usable(Device::kCuda)) GTEST_SKIP() << "no CUDA device here";
    context_.device = Device::kCuda;
    stream_ = use_own_stream(context_);
  }

  // Batches of many sizes, through a cache that is too small, give what the CPU gives.
  void compare(const std::string& text, const std::string& precision, double tolerance) {
    auto config = parse_pipeline(text, "test");
    const FeatureLayout layout = layout_of(config);
    const int64_t piece_rows = HostPredictor::piece_rows();
    HostPredictor expected(std::make_unique<Model>(Context{}, config, layout, piece_rows),
                           piece_rows);
    config.mutable_train_config()->set_mixed_precision(precision);
    dispatch(
        Device::kCuda, [] {},
        [&] {
          cuda::CachedModel model(context_, config, layout, 3000,
                                  {.size = {.share = 0.02, .least_rows = 0}});
          for (const int64_t rows : {1, 16, 17, 100, 128, 129, 700, 3000, 1, 3001, 128}) {
            Inputs inputs = make_inputs(rows, static_cast<uint64_t>(rows));
            inputs.batch.sparse = inputs.features;
            std::vector<float> wanted(static_cast<size_t>(rows)), found(wanted.size());
            expected.run({}, inputs.batch, wanted);
            for (int repetition = 0; repetition < 3; ++repetition) {
              model.predictor().run(context_, inputs.batch, found);
              for (size_t r = 0; r < found.size(); ++r)
                ASSERT_NEAR(found[r], wanted[r], tolerance) << rows << " rows, row " << r;
            }
          }
          EXPECT_GT(model.predictor().counts().missed, 0);
          EXPECT_LT(model.predictor().counts().missed, model.predictor().counts().lookups);
        });
  }

  Context context_;
  std::shared_ptr<cuda::Stream> stream_;
};

TEST_F(CachedModelTest, GivesTheCpusAnswersInFp32) {
  compare(dlrm(32), "FP32", 1e-5);
  compare(dlrm(20), "FP32", 1e-5);  // rows that are not a multiple of 16 bytes
}
TEST_F(CachedModelTest, GivesTheCpusAnswersInFp16ButForRounding) {
  compare(dlrm(32), "FP16", 5e-3);
}
TEST_F(CachedModelTest, GivesTheCpusAnswersInBf16ButForRounding) {
  compare(dlrm(128), "BF16", 3e-2);
}
TEST_F(CachedModelTest, InteractsOverRowsOfOtherDimensions) {
  compare(dlrm(64), "FP16", 5e-3);
  compare(dlrm(96), "FP16", 5e-3);
  compare(dlrm(16), "FP16", 5e-3);  // for which they are gathered
}
TEST_F(CachedModelTest, GathersRowsForOtherLayers) {
  compare(dlrm(32, "arch_with_sparse: true"), "FP16", 5e-3);
}

}  // namespace
}  // namespace emblem
