// Evaluations by several ranks, each with whole tables or with a part of them.
#include <gmock/gmock.h>

#include <bit>
#include <mutex>

#include "comm/ranks_test.h"
#include "config/load/load.h"
#include "core/files/temp_folder_test.h"
#include "model/check/check.h"
#include "model/model.h"
#include "train/predict/evaluation.h"
#include "train/run/rank_tables.h"

namespace emblem {
namespace {

using testing::HasSubstr;

const char* const kPipeline = R"(
  train_config { seed: 5 num_steps: 1 sparse_optimizer { sgd_optimizer { lr: 0.1 } constant_learning_rate {} }
                 dense_optimizer { sgd_optimizer { lr: 0.1 } constant_learning_rate {} } }
  data_config { dataset_type: CsvDataset with_header: true label_fields: "click" label_fields: "buy"
                fg_mode: FG_DAG batch_size: 16 max_bad_rows: 10 }
  feature_configs { id_feature { feature_name: "user" num_buckets: 50 embedding_dim: 4 } }
  feature_configs { id_feature { feature_name: "shop" embedding_dim: 4 dynamicemb { max_capacity: 100 } } }
  feature_configs { raw_feature { feature_name: "age" } }
  model_config {
    feature_groups { group_name: "all" feature_names: "user" feature_names: "shop" feature_names: "age"
                     group_type: DEEP }
    dbmtl {
      bottom_mlp { hidden_units: 6 } expert_mlp { hidden_units: 5 } num_expert: 2
      task_towers { tower_name: "click" label_name: "click" losses { binary_cross_entropy {} }
        mlp { hidden_units: 4 } metrics { auc { thresholds: 0 } } metrics { grouped_auc { grouping_key: "user" } }
        metrics { log_loss {} } metrics { mean_prediction {} } }
      task_towers { tower_name: "buy" label_name: "buy" losses { binary_cross_entropy {} }
        mlp { hidden_units: 4 } metrics { auc { thresholds: 50 } } metrics { calibration {} } metrics { xauc {} } }
    }
  }
)";

std::string data_of(int rows, int bad_rows = 0) {
  std::string text = "click,buy,user,shop,age\n";
  for (int i = 0; i < rows; ++i)
    text += cat(i * 7 % 3 == 0 ? 1 : 0, ",", i * 5 % 4 == 0 ? 1 : 0, ",", i * 13 % 50, ",", i % 7,
                ",", 0.01 * (i % 83), "\n");
  for (int i = 0; i < bad_rows; ++i) text += "0,0,no user,1,1\n";
  return text;
}

// All that is equal on all ranks, numbers as bits.
std::string text_of(const Evaluation& evaluation) {
  std::string text = cat("rows ", evaluation.rows, " bad ", evaluation.bad_rows);
  for (const auto& [name, value] : evaluation.metrics)
    text += cat("\n", name, " ", std::bit_cast<uint64_t>(value));
  for (const FeatureLookups& one : evaluation.lookups)
    text += cat("\n", one.feature, " ", one.table, " ", one.counts.values, " ", one.counts.missing);
  for (const auto& [label, metrics] : evaluation.only_labels)
    text += cat("\nonly ", label, " of ", metrics.size());
  return text;
}

enum class Tables { kWhole, kParts };  // that a rank has

class EvaluationTest : public testing::Test {
 protected:
  EvaluationTest() { check_pipeline(config_); }

  LoaderOptions options(const std::string& data) {
    LoaderOptions options = evaluation_loader_options(config_);
    options.input = folder_.write("data.csv", data);
    return options;
  }

  std::optional<Evaluation> evaluate_on(const LoaderOptions& options, const World& world,
                                        Tables tables = Tables::kWhole) {
    const Context context;
    Model model(context, config_, layout_, options.batch_size, nullptr, ModelUse::kTraining,
                tables == Tables::kParts ? rank_tables_of(context, world) : nullptr);
    return evaluate(context, model, config_, layout_, options, world, {.cancel = cancel_});
  }
  std::string alone(const LoaderOptions& options) {
    return text_of(*evaluate_on(options, World::alone()));
  }

  // Evaluations of each rank.
  std::vector<std::string> by_ranks(const LoaderOptions& options, int ranks, int64_t shards,
                                    Tables tables = Tables::kWhole) {
    std::vector<std::string> texts(static_cast<size_t>(ranks));
    std::vector<double> seconds(texts.size());
    run_thread_ranks(
        ranks,
        [&](Communicator& rank) {
          const World world{.ranks = &rank, .shards = shards};
          const auto found = evaluate_on(options, world, tables);
          const auto r = static_cast<size_t>(rank.rank());
          texts[r] = found ? text_of(*found) : "interrupted";
          seconds[r] = found ? found->seconds : 0;
        },
        kTestSeconds);
    EXPECT_THAT(seconds, testing::Each(seconds[0]));
    return texts;
  }

  // What ends the first rank that fails.
  std::string error_of_ranks(const LoaderOptions& options, int ranks, int64_t shards) {
    try {
      by_ranks(options, ranks, shards);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  CancelToken cancel_;
  TempFolder folder_;
  const PipelineConfig config_ = parse_pipeline(kPipeline, "test.config");
  const FeatureLayout layout_ = layout_of(config_);
};

TEST_F(EvaluationTest, HasTheSameBitsOnAnyNumberOfRanks) {
  const LoaderOptions loading = options(data_of(500, 3));
  const std::string expected = by_ranks(loading, 1, 8)[0];
  EXPECT_THAT(expected, HasSubstr("rows 500 bad 3"));
  EXPECT_THAT(expected, HasSubstr("user user_emb 500 0"));
  EXPECT_THAT(expected, HasSubstr("\nauc_click "));
  for (const Tables tables : {Tables::kWhole, Tables::kParts})
    for (const int ranks : {1, 2, 3, 4, 8})
      EXPECT_THAT(by_ranks(loading, ranks, 8, tables), testing::Each(expected)) << ranks;
}

TEST_F(EvaluationTest, OfOneShardIsThatOfNoRanks) {
  const LoaderOptions loading = options(data_of(300));
  EXPECT_EQ(by_ranks(loading, 1, 1)[0], alone(loading));
}

// Metrics that do not depend on the order in which rows are added up.
TEST_F(EvaluationTest, ExactMetricsAreThoseOfOneStream) {
  const LoaderOptions loading = options(data_of(300));
  const Evaluation expected = *evaluate_on(loading, World::alone());
  run_thread_ranks(3, [&](Communicator& rank) {
    const World world{.ranks = &rank, .shards = 5};
    const Evaluation found = *evaluate_on(loading, world);
    for (const char* metric : {"auc_click", "grouped_auc_click", "auc_buy", "xauc_buy"})
      EXPECT_EQ(found.at(metric), expected.at(metric)) << metric;
    EXPECT_NEAR(found.at("log_loss_click"), expected.at("log_loss_click"), 1e-12);
    EXPECT_EQ(found.lookups.size(), expected.lookups.size());
    EXPECT_EQ(found.rows, expected.rows);
  });
}

TEST_F(EvaluationTest, RanksWithoutRowsTakePart) {
  for (const int rows : {1, 2, 5}) {
    const LoaderOptions loading = options(data_of(rows));
    const std::string expected = by_ranks(loading, 1, 8)[0];
    EXPECT_THAT(expected, HasSubstr(cat("rows ", rows, " ")));
    for (const Tables tables : {Tables::kWhole, Tables::kParts})
      for (const int ranks : {2, 4, 8})
        EXPECT_THAT(by_ranks(loading, ranks, 8, tables), testing::Each(expected)) << ranks;
  }
}

TEST_F(EvaluationTest, StepsLimitEveryStream) {
  config::PipelineConfig limited = config_;
  limited.mutable_eval_config()->set_num_steps(1);
  const LoaderOptions loading = options(data_of(500));
  run_thread_ranks(2, [&](Communicator& rank) {
    const Context context;
    Model model(context, limited, layout_, loading.batch_size);
    const World world{.ranks = &rank, .shards = 4};
    EXPECT_EQ(evaluate(context, model, limited, layout_, loading, world)->rows, 4 * 16);
  });
}

TEST_F(EvaluationTest, BadRowsOfAllShardsCountTogether) {
  EXPECT_EQ(error_of_ranks(options(data_of(400, 10)), 2, 4), "");
  EXPECT_THAT(error_of_ranks(options(data_of(400) + data_of(0, 4).substr(24) +
                                     data_of(400).substr(24) + data_of(0, 7).substr(24)),
                             2, 4),
              HasSubstr("11 rows cannot be read"));
}

TEST_F(EvaluationTest, WithoutAnyGoodRowIsAnErrorOfAll) {
  EXPECT_THAT(error_of_ranks(options(data_of(0, 5)), 2, 4), HasSubstr("all 5 are bad"));
}

TEST_F(EvaluationTest, AnErrorOfOneRankEndsAll) {
  const LoaderOptions loading = options(data_of(500));
  LoaderOptions missing = loading;
  missing.input = folder_.path("missing.csv");
  for (const int failing : {0, 1, 2}) {
    std::mutex mutex;
    int rank_errors = 0;
    const auto body = [&](Communicator& rank) {
      try {
        const World world{.ranks = &rank, .shards = 6};
        evaluate_on(rank.rank() == failing ? missing : loading, world);
      } catch (const RankError& error) {
        const std::lock_guard lock(mutex);
        ++rank_errors;
        EXPECT_EQ(error.rank(), failing);
        throw;
      }
    };
    EXPECT_THAT([&] { run_thread_ranks(3, body, kTestSeconds); },
                testing::ThrowsMessage<Error>(HasSubstr("missing.csv")));
    EXPECT_EQ(rank_errors, 2);
  }
}

TEST_F(EvaluationTest, AnInterruptEndsAllAtOnce) {
  cancel_ = CancelToken([] { return true; });
  EXPECT_THAT(by_ranks(options(data_of(500)), 3, 6), testing::Each("interrupted"));
}

}  // namespace
}  // namespace emblem
