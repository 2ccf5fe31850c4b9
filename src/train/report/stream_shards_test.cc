// Steps in which only some shards have rows, as those of a topic have, after a validation of the
// same rows: on every device, with tables that evict.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <mutex>
#include <numeric>

#include "comm/ranks_test.h"
#include "config/load/load.h"
#include "core/device/device_test.h"
#include "core/math/random.h"
#include "model/lookup/feed.h"
#include "train/learner/learner.h"
#include "train/predict/progressive.h"

namespace emblem {
namespace {

constexpr int64_t kShards = 4, kSteps = 48;

// Which is never read here.
const char* const kStreamShardsPipeline = R"(
  train_input_path: "kafka://nowhere/topic"
  train_config {
    sparse_optimizer { adagrad_optimizer { lr: 0.1 } } dense_optimizer { sgd_optimizer { lr: 0.1 } }
    deterministic: true progressive_eval_rows: 150
  }
  data_config { dataset_type: KafkaDataset stream_format: JSON_ROWS fg_mode: FG_DAG
                label_fields: "label" batch_size: 40 }
  feature_configs { raw_feature { feature_name: "x" } }
  feature_configs { id_feature { feature_name: "id" embedding_dim: 4
                                 dynamicemb { max_capacity: 600 score_strategy: "LFU" } } }
  model_config {
    feature_groups { group_name: "deep" feature_names: "x" feature_names: "id" }
    dnn { deep { hidden_units: 8 } } metrics { auc {} } })";

// Rows of a shard in a step: partial batches, and shards and whole ranks without rows.
int64_t rows_of(int64_t step, int64_t shard) {
  Random random{.seed = static_cast<uint64_t>(step), .stream = static_cast<uint64_t>(shard)};
  const bool has_rows = step % 4 == shard || (step % 3 == 0 && random.below(2) == 0);
  return has_rows ? 1 + static_cast<int64_t>(random.below(40)) : 0;
}

Batch shard_batch(int64_t step, int64_t shard) {
  Batch batch;
  batch.rows = rows_of(step, shard);
  Random random{.seed = 100, .stream = static_cast<uint64_t>(step * kShards + shard)};
  SparseColumn& ids = batch.sparse.emplace_back();
  for (int64_t row = 0; row < batch.rows; ++row) {
    batch.dense.push_back(random.normal());
    ids.keys.push_back(static_cast<int64_t>(random.below(2000)));
    batch.labels.push_back(ids.keys.back() % 2 == 0 ? 1.0f : 0.0f);
  }
  return batch;
}

struct Trained {
  std::vector<double> losses;
  std::vector<std::map<std::string, double>> windows;
  std::map<int64_t, std::vector<float>> rows;
  std::map<int64_t, int64_t> scores;
  bool operator==(const Trained&) const = default;
};

class StreamShards : public DeviceTest {
 protected:
  Trained train_on(int count) const {
    Trained all;
    std::mutex mutex;
    run_thread_ranks(
        count, [&](Communicator& ranks) { run_rank(ranks, all, mutex); }, kTestSeconds);
    return all;
  }

 private:
  void run_rank(Communicator& ranks, Trained& all, std::mutex& mutex) const {
    Context context{.device = GetParam()};
    const auto stream = use_own_stream(context);
    const World world{.ranks = &ranks, .shards = kShards};
    const config::PipelineConfig config = parse_pipeline(kStreamShardsPipeline, "test");
    const FeatureLayout layout = layout_of(config);
    Learner learner(context, config, layout, 40, world);
    ProgressiveValidation progressive(config, layout, world);
    for (int64_t step = 0; step < kSteps; ++step) {
      std::vector<int64_t> rows;
      for (int64_t shard = 0; shard < kShards; ++shard) rows.push_back(rows_of(step, shard));
      std::deque<Batch> batches;
      std::deque<Feed> feeds;
      std::vector<const ModelBatch*> shards;
      std::vector<ProgressiveValidation::Shard> validated;
      for (int64_t shard = world.first_shard(); shard < world.last_shard(); ++shard) {
        const Batch& batch = batches.emplace_back(shard_batch(step, shard));
        shards.push_back(batch.rows > 0 ? &feeds.emplace_back(context).set(batch) : nullptr);
        validated.push_back({shards.back(), shards.back() == nullptr ? nullptr : &batch});
      }
      const auto window = progressive.add(context, learner.model(), validated,
                                          std::accumulate(rows.begin(), rows.end(), 0ll));
      const StepResult result = learner.step(shards, rows, 0);
      learner.model().check(context);
      if (ranks.rank() != 0) continue;
      all.losses.push_back(result.loss);
      if (window) all.windows.push_back(window->metrics);
    }
    const Table& table = *learner.model().tables()[0];
    const std::lock_guard lock(mutex);
    table.export_rows(context, 100, [&](const RowBatch& batch) {
      for (size_t i = 0; i < batch.keys.size(); ++i) {
        all.scores[batch.keys[i]] = batch.scores[i];
        const auto weights = batch.weights.subspan(i * 4, 4);
        all.rows[batch.keys[i]].assign(weights.begin(), weights.end());
      }
    });
  }
};

TEST_P(StreamShards, HaveTheSameBytesOnAnyNumberOfRanks) {
  const Trained one = train_on(1);
  EXPECT_GT(one.windows.size(), 2u);
  EXPECT_GT(one.rows.size(), 450u);  // it is full
  EXPECT_LE(one.rows.size(), 600u);
  for (const int ranks : {2, 3, 4}) EXPECT_EQ(train_on(ranks), one) << ranks << " ranks";
}

EMBLEM_TEST_ON_EVERY_DEVICE(StreamShards);

}  // namespace
}  // namespace emblem
