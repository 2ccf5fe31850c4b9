#include "plan/search/search.h"

#include <gmock/gmock.h>

#include "config/load/load.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;

// Tables of 1000, 2000, ... rows, each with these `sharding_types` ("": none) and this dim.
struct Asked {
  std::string kinds;
  int dim = 8;
};

std::optional<ShardPlan> constrained_plan_of(const std::vector<Asked>& tables, int ranks) {
  std::string text = R"(
    train_input_path: "x" model_dir: "m"
    train_config { num_steps: 1 sparse_optimizer { sgd_optimizer {} } dense_optimizer { sgd_optimizer {} } }
    data_config { batch_size: 4 dataset_type: CsvDataset label_fields: "y" }
    model_config { dnn { deep { hidden_units: [4] } } feature_groups { group_name: "deep" group_type: DEEP )";
  for (size_t t = 0; t < tables.size(); ++t) text += cat(" feature_names: \"t", t, "\"");
  text += " } }";
  for (size_t t = 0; t < tables.size(); ++t) {
    const std::string types =
        tables[t].kinds.empty()
            ? ""
            : cat(" embedding_constraints { sharding_types: [", tables[t].kinds, "] }");
    text +=
        cat(" feature_configs { id_feature { feature_name: \"t", t,
            "\" embedding_dim: ", tables[t].dim, " num_buckets: ", 1000 * (t + 1), types, " } }");
  }
  const config::PipelineConfig config = parse_pipeline(text, "test");
  return constrained_plan(config, layout_of(config), ranks);
}

TEST(ConstrainedPlan, IsThereWhereConstraintsMatter) {
  EXPECT_EQ(constrained_plan_of({{""}, {""}}, 2), std::nullopt);
  EXPECT_EQ(constrained_plan_of({{"'row_wise', 'data_parallel'"}, {""}}, 2), std::nullopt);
  EXPECT_EQ(constrained_plan_of({{"'column_wise'"}, {"'table_wise'"}}, 1), std::nullopt);
}

TEST(ConstrainedPlan, PutsTheLargestTablesOnTheEmptiestRanks) {
  const auto plan =
      constrained_plan_of({{"'table_wise'"}, {"'table_wise'"}, {"'table_wise'"}, {""}}, 2);
  EXPECT_THAT(plan->tables, ElementsAre(on_rank("t0_emb", 1, 2), on_rank("t1_emb", 1, 2),
                                        on_rank("t2_emb", 0, 2), over_all_ranks("t3_emb", 2)));
}

TEST(ConstrainedPlan, CutsColumnsOverAllRanksOrAsManyAsThereAre) {
  const auto plan =
      constrained_plan_of({{"'column_wise'", 8}, {"'column_wise'", 2}, {"'column_wise'", 1}}, 4);
  EXPECT_THAT(plan->tables, ElementsAre(by_columns("t0_emb", {0, 1, 2, 3}, 4),
                                        by_columns("t1_emb", {0, 1}, 4), on_rank("t2_emb", 2, 4)));
}

TEST(ConstrainedPlan, CopiesATableThatCannotBeCutAsOften) {
  const auto plan = constrained_plan_of(
      {{"'column_wise', 'data_parallel'", 8}, {"'column_wise', 'data_parallel'", 2}}, 4);
  EXPECT_THAT(plan->tables,
              ElementsAre(by_columns("t0_emb", {0, 1, 2, 3}, 4), on_every_rank("t1_emb")));
}

}  // namespace
}  // namespace emblem
