// The ranking pipelines of TorchEasyRec: read from the folder that EMBLEM_TORCHEASYREC names, never
// part of this repository. Their dense parameters are as many as TorchEasyRec has.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "config/load/load.h"
#include "core/text/text.h"
#include "emblem/error.h"
#include "model/check/check.h"
#include "model/models.h"

namespace emblem {
namespace {

int64_t dense_parameters(const std::string& path) {
  const std::vector<std::string> overrides = {"train_config.divide_tables=100000"};
  const config::PipelineConfig config = load_pipeline(path, overrides);
  const FeatureLayout layout = layout_of(config);
  Graph graph(1);
  ModelInputs inputs(graph, config, layout, wide_dim_of(config.model_config()));
  for (const Head& head : build_model(graph, inputs)) add_losses(graph, inputs, head);
  int64_t count = 0;
  for (const Parameter& each : graph.parameter_list()) count += each.rows * each.cols;
  return count;
}

// The verdict of check_pipeline on a pipeline of TorchEasyRec, unchanged; "" when it is fine.
std::string verdict_on(const std::string& path) {
  try {
    check_pipeline(load_pipeline(path));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(TorchEasyRecConfigs, IsCheckedUnchanged) {
  const char* root = std::getenv("EMBLEM_TORCHEASYREC");
  if (root == nullptr) GTEST_SKIP() << "EMBLEM_TORCHEASYREC names no copy of TorchEasyRec";
  const std::map<std::string, std::string> refused = {
      {"examples/wukong_criteo",
       "wukong.dense_mlp ends in 128 units, but the features of group \"sparse\" have "
       "embedding_dim 16; make them equal"},
      {"tzrec/benchmark/configs/kuairand/dlrm_hstu", "model \"dlrm_hstu\" is not supported yet"}};
  for (const char* folder : {"tzrec/benchmark/configs", "examples"}) {
    for (const auto& file :
         std::filesystem::recursive_directory_iterator(std::filesystem::path(root) / folder)) {
      if (file.path().extension() != ".config") continue;
      const std::string name =
          std::filesystem::relative(file.path(), root).replace_extension().string();
      const auto found = refused.find(name);
      const std::string expected = found == refused.end() ? "" : found->second;
      const std::string actual = verdict_on(file.path().string());
      EXPECT_EQ(actual.substr(0, expected.empty() ? std::string::npos : expected.size()), expected)
          << name;
    }
  }
}

struct Expected {
  const char* file;
  int64_t parameters;  // 0: not checked
};

class TorchEasyRecConfig : public testing::TestWithParam<Expected> {};

TEST_P(TorchEasyRecConfig, HasItsDenseParameters) {
  const char* folder = std::getenv("EMBLEM_TORCHEASYREC");
  if (folder == nullptr)
    GTEST_SKIP() << "set EMBLEM_TORCHEASYREC to a clone of TorchEasyRec to check its pipelines";
  const std::string path = cat(folder, "/", GetParam().file);
  ASSERT_TRUE(std::filesystem::exists(path)) << path;
  const int64_t count = dense_parameters(path);
  if (GetParam().parameters > 0)
    EXPECT_EQ(count, GetParam().parameters);
  else
    EXPECT_GT(count, 0);
}

#define BENCHMARK(name) "tzrec/benchmark/configs/" name ".config"
#define EXAMPLE(name) "examples/" name ".config"

INSTANTIATE_TEST_SUITE_P(
    Pipelines, TorchEasyRecConfig,
    testing::Values(
        Expected{BENCHMARK("criteo/deepfm"), 393793}, Expected{BENCHMARK("criteo/dlrm"), 2368897},
        Expected{BENCHMARK("criteo/rocket_launching"), 1090820},
        Expected{BENCHMARK("taobao/dbmtl"), 484930},
        Expected{BENCHMARK("taobao/dbmtl_jrc"), 485060},
        Expected{BENCHMARK("taobao/dbmtl_has_sequence"), 515955},
        Expected{BENCHMARK("taobao/mmoe"), 1926414},
        Expected{BENCHMARK("taobao/mmoe_has_sequence"), 2080895},
        Expected{BENCHMARK("taobao/ple"), 5251283},
        Expected{BENCHMARK("taobao/ple_has_sequence"), 5504020},
        Expected{BENCHMARK("taobao_ccp/dbmtl"), 561090},
        Expected{BENCHMARK("taobao_ccp/mmoe"), 166080},
        Expected{BENCHMARK("taobao_ccp/ple"), 800748},
        Expected{BENCHMARK("taobao/dssm_taobao"), 165696}, Expected{EXAMPLE("dssm_taobao"), 501632},
        Expected{EXAMPLE("dssm_v2_taobao"), 501632}, Expected{EXAMPLE("mind_taobao"), 246560},
        Expected{EXAMPLE("multi_tower_taobao"), 477057},
        Expected{EXAMPLE("multi_tower_din_taobao"), 373122},
        Expected{EXAMPLE("masknet_criteo"), 4416984}, Expected{EXAMPLE("deepfm_criteo"), 0},
        Expected{EXAMPLE("dlrm_criteo"), 0}, Expected{EXAMPLE("mmoe_taobao"), 0},
        Expected{EXAMPLE("ple_taobao"), 0}, Expected{EXAMPLE("dbmtl_taobao"), 0},
        Expected{EXAMPLE("dbmtl_taobao_jrc"), 0}, Expected{EXAMPLE("dbmtl_taobao_seq"), 0},
        Expected{EXAMPLE("pepnet_taobao"), 0}, Expected{EXAMPLE("rocket_launching_criteo"), 0}),
    [](const auto& info) {
      std::string name = info.param.file;
      name = name.substr(0, name.find('.'));
      for (const char* prefix : {"tzrec/benchmark/configs/", "examples/"})
        if (name.starts_with(prefix)) name = name.substr(std::string(prefix).size());
      for (char& c : name)
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
      return cat(name, "_", info.index);
    });

TEST(TorchEasyRecWukong, IsRefusedAsItIsThere) {
  const char* folder = std::getenv("EMBLEM_TORCHEASYREC");
  if (folder == nullptr)
    GTEST_SKIP() << "set EMBLEM_TORCHEASYREC to a clone of TorchEasyRec to check its pipelines";
  try {
    dense_parameters(cat(folder, "/", EXAMPLE("wukong_criteo")));
    FAIL() << "was built";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "wukong: dense_mlp ends in 128 units, but the embeddings have dimension 16; make "
                 "the last of dense_mlp.hidden_units 16");
  }
}

}  // namespace
}  // namespace emblem
