// A program that uses Emblem as a library: it makes a Runtime, trains on rows in memory step by
// step, evaluates, saves and ends the Runtime; twice.
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "config/load/load.h"
#include "core/files/file.h"
#include "data/loader/table_batches.h"
#include "model/check/check.h"
#include "runtime/runtime.h"
#include "train/run/trainer.h"

using namespace emblem;

constexpr const char* kPipeline = R"(
  train_config { sparse_optimizer { adagrad_optimizer { lr: 0.1 } }
                 dense_optimizer { adam_optimizer { lr: 0.01 } }
                 num_steps: 1000 save_checkpoints_steps: 0 }
  data_config { dataset_type: CsvDataset with_header: true label_fields: "label" batch_size: 100 }
  feature_configs { id_feature { feature_name: "id" num_buckets: 50 embedding_dim: 8 } }
  model_config { feature_groups { group_name: "deep" feature_names: "id" }
                 dnn { deep { hidden_units: 16 } } metrics { auc {} } })";

// The AUC on the rows of a file after 30 steps, each of which is reported.
static double train_once(const std::string& folder, const std::string& evaluated) {
  const Runtime runtime;
  const PipelineConfig config = parse_pipeline(
      cat("model_dir: '", folder, "' eval_input_path: '", evaluated, "' ", kPipeline), "program");
  check_pipeline(config);
  int reported = 0;
  TrainOptions options{.batches = TrainBatches::kGiven};
  options.callbacks.step = [&](const StepReport& report) { reported += report.is_due ? 0 : 1; };
  Trainer trainer({}, config, options);
  TableBatches batches(config.data_config(), trainer.layout());
  Batch batch;
  std::vector<float> label(100);
  std::vector<int64_t> id(100);
  for (size_t step = 0; step < 30; ++step) {
    for (size_t row = 0; row < 100; ++row) {
      id[row] = static_cast<int64_t>((7 * row + step) % 50);
      label[row] = id[row] < 25 ? 1.0f : 0.0f;
    }
    batches.make(ColumnTable::of_spans({{.name = "label", .values = std::span<const float>(label)},
                                        {.name = "id", .values = std::span<const int64_t>(id)}}),
                 batch);
    EMBLEM_REQUIRE(trainer.step(batch), "no step");
  }
  EMBLEM_REQUIRE(std::filesystem::exists(trainer.save()), "no checkpoint");
  const double auc = trainer.evaluate()->at("auc");
  EMBLEM_REQUIRE(trainer.close().steps == 30 && reported == 30, "not 30 steps");
  return auc;
}

int main() {
  const std::string folder =
      std::filesystem::temp_directory_path() / cat("emblem-library-", ::getpid());
  std::string rows = "label,id\n";
  for (int id = 0; id < 50; ++id) rows += cat(id < 25 ? 1 : 0, ",", id, "\n");
  std::filesystem::create_directories(folder);
  write_text_file_atomically(folder + "/rows.csv", rows);
  const double first = train_once(folder + "/first", folder + "/rows.csv");
  const double second = train_once(folder + "/second", folder + "/rows.csv");
  std::filesystem::remove_all(folder);
  std::printf("auc %.4f and %.4f\n", first, second);
  return first > 0.9 && first == second ? 0 : 1;
}
