// checkpoint/checkpoint_test.h - small checkpoints to test with.
#pragma once

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "core/files/temp_folder_test.h"
#include "core/math/random.h"

namespace emblem {

inline Manifest sample_manifest() {
  Manifest manifest;
  manifest.epoch = 2;
  manifest.model = "dlrm";
  manifest.parameters = {{"top/0/weight", {16, 4}}, {"top/0/bias", {4}}};
  manifest.tables = {
      {"user", "dynamic", 4, "bf16", 3, "adagrad", {"tables/user/key", "tables/user/emb_vector"}}};
  manifest.position = {.epoch = 2,
                       .piece = 3,
                       .row = 4,
                       .emitted = 5,
                       .rows_in_epoch = 6,
                       .stream = {{0, int64_t{1} << 40, 7}, {1, 8, 0}}};
  manifest.schedules["dense"] = {
      .best = 0.1, .has_best = true, .bad_evaluations = 2, .factor = 0.5};
  manifest.early_stopping = {
      .metric = "auc", .has_best = true, .best = 0.8, .best_step = 100, .bad_evaluations = 1};
  manifest.loss_scale = LossScaleState{.scale = 1024.0, .good_steps = 17};
  manifest.evaluation_due = true;
  manifest.only_best = true;
  manifest.metrics = {{"auc", 1.0 / 3}};
  manifest.seeds = {{"train", ~uint64_t{0}}};
  return manifest;
}

// Files of random bytes, other ones for other steps and seeds.
inline std::string write_sample(const std::string& model_dir, int64_t step, uint64_t seed = 1,
                                size_t table_bytes = 4000) {
  CheckpointWriter writer(model_dir, step);
  Random random{seed, static_cast<uint64_t>(step)};
  for (const auto& [name, bytes] : {std::pair("tables/user/key", table_bytes / 4),
                                    {"tables/user/emb_vector", table_bytes},
                                    {"dense.safetensors", size_t{100}},
                                    {"pipeline.config", size_t{10}},
                                    {"tables/user/admission", size_t{0}}}) {
    std::string content(bytes, '\0');
    for (char& byte : content) byte = static_cast<char>(random.bits());
    writer.write_file(name, content);
  }
  return writer.commit(sample_manifest());
}

class ModelDirTest : public testing::Test {
 protected:
  std::vector<std::string> names() const {  // names of everything in the model dir, sorted
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(dir_))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  const TempFolder folder_;
  const std::string dir_ = folder_.path("model");  // not made yet
};

}  // namespace emblem
