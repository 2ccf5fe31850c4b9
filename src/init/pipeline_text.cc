#include "init/pipeline_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "core/text.h"
#include "data/format/decoder.h"
#include "emblem/error.h"
#include "init/feature_names.h"
#include "init/feature_text.h"
#include "init/model_text.h"

namespace emblem {
namespace {

// What follows from the number of rows.
struct Sizes {
  int64_t batch = 0, epochs = 0, patience = 0, shuffled_batches = 0;
  double sparse_lr = 0.02, dense_lr = 0.001, weight_l2 = 0;
  ModelSizes model;
};

Sizes sizes_for(double rows, LabelTask task) {
  Sizes sizes;
  const auto steps_of_200 = static_cast<uint64_t>(std::max(1.0, rows / 200));
  sizes.batch = static_cast<int64_t>(std::clamp<uint64_t>(std::bit_floor(steps_of_200), 32, 4096));
  sizes.epochs = rows < 2e3 ? 200 : rows < 2e4 ? 100 : rows < 2e6 ? 20 : rows < 2e7 ? 5 : 1;
  sizes.patience = rows < 2e4 ? 10 : rows < 2e5 ? 4 : 2;
  // Few rows are few steps an epoch; what is learned of them by heart must not count much.
  if (rows < 5e4) {
    sizes.sparse_lr = 0.03;
    sizes.weight_l2 = 1e-4;
    // Numbers may be learned to many digits, which noise does not allow.
    sizes.model.dropout = task == LabelTask::kNumber ? 0 : 0.2;
  }
  sizes.shuffled_batches = rows < 1e6 ? 256 : 64;
  sizes.model.embedding_dim = rows < 1e4 ? 4 : rows < 1e6 ? 8 : 16;
  sizes.model.hidden = rows < 5e3   ? "[32, 16]"
                       : rows < 5e4 ? "[64, 32]"
                       : rows < 2e6 ? "[128, 64]"
                                    : "[256, 128, 64]";
  return sizes;
}

// Of losses, not of AUC or accuracy, which change by chance where few rows are evaluated.
const char* stopping_metric(LabelTask task) {
  return task == LabelTask::kNumber ? "mean_squared_error" : "log_loss";
}

class Writer {
 public:
  Writer(const DataProfile& profile, const std::vector<ColumnChoice>& columns,
         const LabelChoice& label, const PipelineSettings& settings)
      : profile_(profile),
        columns_(columns),
        label_(label),
        settings_(settings),
        sizes_(sizes_for(profile.total_rows, label.task)),
        model_(choose_model(columns, label, profile.total_rows, settings.model)) {
    using Lists = FeatureSizes::Lists;
    FeatureSizes sizes;
    sizes.embedding_dim = has_embeddings(model_) ? sizes_.model.embedding_dim : 0;
    sizes.lists = reads_sequences(model_) ? Lists::kSequences : Lists::kPooled;
    features_ = write_features(profile, columns, sizes);
    EMBLEM_REQUIRE(!features_.empty(), profile.source.input,
                   " has no column to learn from besides the label; --categories and --numbers use "
                   "columns that were skipped");
  }

  std::string text() const {
    std::string features;
    for (const WrittenFeature& feature : features_) features += feature.text;
    return input() + training() + data() + features + skipped_text(profile_, columns_) +
           model_text(model_, features_, label_, sizes_.model);
  }

 private:
  std::string input() const {
    std::string text = fmt::format(
        "# Written by emblem init from {} {} of {}.\n"
        "# Every setting: docs/configuration.md. Train with: emblem train --config THIS_FILE\n",
        profile_.rows_read, profile_.all_read ? "rows (all)" : "sampled rows",
        printable(settings_.train_input));
    text += fmt::format("train_input_path: {}\n", proto_string(settings_.train_input));
    if (!settings_.eval_input.empty())
      text += fmt::format("eval_input_path: {}\n", proto_string(settings_.eval_input));
    return text + fmt::format("model_dir: {}\n\n", proto_string(settings_.model_dir));
  }

  std::string training() const {
    std::string text = fmt::format(
        "train_config {{\n"
        "  sparse_optimizer {{ adagrad_optimizer {{ lr: {:g} }} }}  # of embedding tables\n"
        "  dense_optimizer {{ adam_optimizer {{ lr: {:g} }} }}\n",
        sizes_.sparse_lr, sizes_.dense_lr);
    if (sizes_.weight_l2 > 0)
      text += fmt::format("  regularization {{ weight_l2: {0:g} embedding_l2: {0:g} }}\n",
                          sizes_.weight_l2);
    text += fmt::format("  num_epochs: {}\n", sizes_.epochs);
    text += "  save_checkpoints_steps: 0  # one checkpoint, at the end\n  keep_checkpoint_max: 1\n";
    if (sizes_.epochs > 1 && has_evaluations()) {
      text += fmt::format(
          "  eval_epochs: 1\n"
          "  early_stopping {{ metric: \"{}\" patience: {} }}  # and the best weights are kept\n",
          stopping_metric(label_.task), sizes_.patience);
    }
    return text + "}\n\n";
  }

  std::string data() const {
    std::string text = "data_config {\n";
    const DataSource& source = profile_.source;
    text += fmt::format("  dataset_type: {}\n", config::DatasetType_Name(source.type));
    if (source.type == config::CsvDataset) text += csv_settings();
    text += label_settings();
    if (const std::string weight = name_of(ColumnUse::kWeight); !weight.empty())
      text += fmt::format("  sample_weight_fields: {}\n", proto_string(weight));
    if (source.max_bad_rows > 0)
      text += fmt::format("  max_bad_rows: {}  # rows that cannot be read are skipped\n",
                          source.max_bad_rows);
    text += "  fg_mode: FG_DAG\n";
    text += fmt::format("  batch_size: {}\n  shuffle: true\n  shuffle_buffer_size: {}\n",
                        sizes_.batch, sizes_.shuffled_batches);
    if (settings_.eval_input.empty() && has_evaluations()) text += holdout_settings();
    return text + "}\n\n";
  }

  std::string label_settings() const {
    std::string text =
        fmt::format("  label_fields: {}\n", proto_string(name_of(ColumnUse::kLabel)));
    if (!label_.positive.empty())
      text += fmt::format("  label_positive: {}  # the value that is 1; all others are 0\n",
                          proto_string(label_.positive));
    if (!label_.classes.empty())
      text += "  # The values of the label: class 0, class 1, ...\n  label_classes: [\n" +
              quoted_lines(label_.classes, "    ") + "  ]\n";
    return text;
  }

  std::string holdout_settings() const {
    std::string text =
        fmt::format("  holdout_ratio: {:g}  # of the rows are not trained on, but evaluated on\n",
                    settings_.holdout_ratio);
    if (!settings_.holdout_fields.empty())
      text +=
          "  # The values of these columns decide which: not the order of the rows, or the "
          "format.\n"
          "  holdout_fields: [\n" +
          quoted_lines(settings_.holdout_fields, "    ") + "  ]\n";
    return text;
  }

  bool has_evaluations() const {
    return !settings_.eval_input.empty() || settings_.holdout_ratio > 0;
  }

  std::string csv_settings() const {
    const DataSource& source = profile_.source;
    std::string text;
    if (source.delimiter != ",")
      text += fmt::format("  delimiter: {}\n", proto_string(source.delimiter));
    if (source.with_header) return text + "  with_header: true\n";
    std::vector<std::string> names;
    for (const config::Field& field : source.fields) names.push_back(field.input_name());
    text += "  # The file has no header; these are its columns, in order.\n";
    if (names.size() > 1 && names.front() == "column1" &&
        names.back() == fmt::format("column{}", names.size()))
      return text +
             fmt::format("  input_fields {{ input_name: \"column{{1..{}}}\" }}\n", names.size());
    for (const std::string& name : names)
      text += fmt::format("  input_fields {{ input_name: {} }}\n", proto_string(name));
    return text;
  }

  std::string name_of(ColumnUse use) const {
    for (size_t i = 0; i < columns_.size(); ++i)
      if (columns_[i].use == use) return profile_.columns[i].name;
    return "";
  }

  const DataProfile& profile_;
  const std::vector<ColumnChoice>& columns_;
  const LabelChoice& label_;
  const PipelineSettings& settings_;
  Sizes sizes_;
  std::string model_;
  std::vector<WrittenFeature> features_;
};

}  // namespace

std::vector<std::string> starter_models() {
  return {"deepfm", "dlrm", "dnn", "wide_and_deep", "dcn_v2", "fm", "lr"};
}

std::string pipeline_text(const DataProfile& profile, const std::vector<ColumnChoice>& columns,
                          const LabelChoice& label, const PipelineSettings& settings) {
  return Writer(profile, columns, label, settings).text();
}

}  // namespace emblem
