#include "model/check/check_model.h"

#include <gmock/gmock.h>

#include "config/load/load.h"
#include "emblem/error.h"
#include "model/models.h"

namespace emblem {
namespace {

using testing::StartsWith;

std::string text_verdict(const std::string& text) {
  try {
    refuse_unsupported(parse_pipeline(text, "x"));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "fine";
}

TEST(Unsupported, ModelsAreNamedWithThoseThatAre) {
  for (const char* model : {"simple_multi_task", "dc2vr", "dlrm_hstu", "ultra_hstu", "hstu_match",
                            "sid_rqvae", "sid_rqkmeans"}) {
    EXPECT_EQ(text_verdict(std::string("model_config { ") + model + " {} }"),
              std::string("model \"") + model +
                  "\" is not supported yet; use one of dlrm, deepfm, multi_tower, multi_tower_din, "
                  "mask_net, wide_and_deep, dcn_v1, dcn_v2, xdeepfm, wukong, mmoe, dbmtl, ple, "
                  "pepnet, dssm, dssm_v2, dat, mind, tdm, rocket_launching, lr, fm, dnn");
  }
  for (const std::string& model : supported_models())
    EXPECT_EQ(text_verdict("model_config { " + model + " {} }"), "fine");
}

TEST(Unsupported, SettingsAreNamedWithWhatToDo) {
  EXPECT_THAT(text_verdict("model_config { use_pareto_loss_weight: true }"),
              StartsWith("model_config.use_pareto_loss_weight is not supported yet; give"));
  EXPECT_THAT(text_verdict("model_config { variational_dropout { "
                           "embedding_wise_variational_dropout: true } }"),
              StartsWith("model_config.variational_dropout.embedding_wise_variational_dropout is "
                         "not supported yet; remove it"));
  EXPECT_THAT(text_verdict("model_config { feature_groups { group_name: 'g' group_type: "
                           "JAGGED_SEQUENCE } }"),
              StartsWith("group_type JAGGED_SEQUENCE of feature group \"g\" is not supported"));
  EXPECT_EQ(text_verdict("data_config { tdm_sampler {} } model_config { dssm {} }"),
            "data_config.tdm_sampler is for the model tdm; remove it");
  EXPECT_EQ(text_verdict("data_config { negative_sampler {} } model_config { tdm {} }"),
            "data_config.negative_sampler is not for the model tdm; use tdm_sampler");
  for (const char* sampler : {"negative_sampler", "negative_sampler_v2", "hard_negative_sampler",
                              "hard_negative_sampler_v2"}) {
    EXPECT_EQ(text_verdict(cat("data_config { ", sampler, " {} } model_config { dnn {} }")),
              cat("data_config.", sampler,
                  " is for matching models (dssm, dssm_v2, dat, mind); remove it"));
  }
  EXPECT_THAT(text_verdict("data_config { batch_cost_size: 3 sample_cost_field: 'x' }"),
              StartsWith("data_config.batch_cost_size is not supported yet; give batch_size"));
  EXPECT_THAT(text_verdict("data_config { sample_mask_prob: 0.1 }"),
              StartsWith("data_config.sample_mask_prob is not supported yet; remove it"));
  for (const char* feature :
       {"custom_feature { feature_name: 'x' }", "sequence_custom_feature { feature_name: 'x' }",
        "sequence_feature { features { custom_feature { feature_name: 'x' } } }"})
    EXPECT_THAT(text_verdict(std::string("feature_configs { ") + feature + " }"),
                StartsWith("custom_feature \"x\" is not supported yet; compute it before"));
  EXPECT_THAT(text_verdict("train_config { fine_tune_ckpt_param_map: 'x' }"),
              StartsWith("train_config.fine_tune_ckpt_param_map is not supported yet"));
  EXPECT_THAT(text_verdict("train_config { save_checkpoints_timestamps: 3 }"),
              StartsWith("train_config.save_checkpoints_timestamps is not supported yet"));
  EXPECT_THAT(text_verdict("train_config { delta_embedding_dump_config {} }"),
              StartsWith("train_config.delta_embedding_dump_config is not supported yet; set"));
}

TEST(Unsupported, WhatDoesNotChangeResultsIsAccepted) {
  EXPECT_EQ(text_verdict(R"(
      data_config { odps_data_quota_name: "x" odps_data_compression: "LZ4_FRAME" fg_threads: 4
                    is_orderby_partition: true pin_memory: false in_order: false
                    force_base_data_group: true }
      train_config { is_profiling: true cudnn_allow_tf32: true cuda_matmul_allow_tf32: true
                     global_embedding_constraints { sharding_types: "table_wise" }
                     tensorboard_summaries: "loss" }
      export_config { exporter_type: "best" }
      feature_configs { id_feature { feature_name: "a" embedding_constraints {} } }
      model_config { kernel: TRITON dnn {} })"),
            "fine");
}

TEST(Unsupported, MetricsOfTheModelAreRefusedWhereTowersHaveTheirOwn) {
  EXPECT_THAT(text_verdict("model_config { mmoe { task_towers { tower_name: 'ctr' } } metrics { "
                           "auc {} } }"),
              StartsWith("model_config.metrics has no effect on a model with task_towers; move it "
                         "into its towers"));
}

}  // namespace
}  // namespace emblem
