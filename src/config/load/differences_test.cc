#include "config/load/differences.h"

#include <gmock/gmock.h>

#include "config/load/load.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> texts(const std::string& first, const std::string& second,
                               std::span<const std::string_view> ignored = {}) {
  std::vector<std::string> texts;
  for (const FieldDifference& found :
       differences(parse_pipeline(first, "first"), parse_pipeline(second, "second"), ignored))
    texts.push_back(found.path + ": " + found.first + " -> " + found.second);
  return texts;
}

TEST(Differences, NameTheFieldAndBothValues) {
  EXPECT_THAT(texts("train_input_path: 'a' train_config { seed: 1 num_steps: 3 }",
                    "train_input_path: 'b' train_config { seed: 2 num_steps: 3 }"),
              ElementsAre("train_input_path: \"a\" -> \"b\"", "train_config.seed: 1 -> 2"));
}

TEST(Differences, AnUnsetFieldMeansItsDefault) {
  EXPECT_THAT(texts("train_config {}", "train_config { seed: 1 }"), IsEmpty());
  EXPECT_THAT(texts("train_config {}", "train_config { seed: 5 }"),
              ElementsAre("train_config.seed: 1 -> 5"));
  EXPECT_THAT(texts("train_config { num_steps: 0 }", "train_config {}"),
              ElementsAre("train_config.num_steps: 0 -> unset"));
}

TEST(Differences, AnotherChoiceIsOneDifference) {
  const auto with = [](const std::string& optimizer) {
    return "train_config { sparse_optimizer { " + optimizer + " } }";
  };
  EXPECT_THAT(
      texts(with("adagrad_optimizer { lr: 0.1 }"), with("sgd_optimizer { lr: 0.2 }")),
      ElementsAre("train_config.sparse_optimizer.optimizer: adagrad_optimizer -> sgd_optimizer"));
  EXPECT_THAT(texts(with("adagrad_optimizer {}"), with("")),
              ElementsAre("train_config.sparse_optimizer.optimizer: adagrad_optimizer -> unset"));
  EXPECT_THAT(texts(with("adagrad_optimizer { lr: 0.1 }"), with("adagrad_optimizer { lr: 0.2 }")),
              ElementsAre("train_config.sparse_optimizer.adagrad_optimizer.lr: 0.1 -> 0.2"));
}

TEST(Differences, ListsAreComparedAsAWhole) {
  EXPECT_THAT(texts("model_config { dnn { deep { hidden_units: [8, 4] } } }",
                    "model_config { dnn { deep { hidden_units: [8] } } }"),
              ElementsAre("model_config.dnn.deep.hidden_units: [8, 4] -> [8]"));
}

TEST(Differences, ListsOfMessagesAreComparedEntryByEntry) {
  const std::string one = "feature_configs { id_feature { feature_name: 'a' embedding_dim: 4 } } ";
  EXPECT_THAT(texts(one, one + one), ElementsAre("feature_configs: 1 entry -> 2 entries"));
  EXPECT_THAT(texts(one + one,
                    one + "feature_configs { id_feature { feature_name: 'a' embedding_dim: 8 } }"),
              ElementsAre("feature_configs[1].id_feature.embedding_dim: 4 -> 8"));
}

TEST(Differences, IgnoreWhatIsNamedAndEverythingBelowIt) {
  constexpr std::string_view kIgnored[] = {"train_config.early_stopping", "model_config.metrics",
                                           "model_dir"};
  EXPECT_THAT(texts("model_dir: 'a' train_config { early_stopping { patience: 3 } }",
                    "train_config {} model_config { metrics { auc {} } }", kIgnored),
              ElementsAre("model_config: unset -> set"));
  EXPECT_THAT(texts("model_config {}", "model_config { metrics { auc {} } }", kIgnored), IsEmpty());
}

}  // namespace
}  // namespace emblem
