#include "init/starter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/text/text.h"
#include "data/format/decoder.h"
#include "emblem/error.h"
#include "init/feature_names.h"
#include "init/feature_text.h"
#include "init/label_choice.h"
#include "init/training_choice.h"

namespace emblem {
namespace {

using Kind = WrittenFeature::Kind;
using Names = std::vector<std::string>;

Names names_of(const std::vector<WrittenFeature>& features, std::initializer_list<Kind> kinds) {
  Names names;
  for (const Kind kind : kinds)
    for (const WrittenFeature& feature : features)
      if (feature.kind == kind) names.push_back(feature.name);
  return names;
}

std::string group(const std::string& name, const Names& features, const std::string& more = "") {
  return fmt::format(
      "  feature_groups {{\n    group_name: \"{}\"\n{}    feature_names: [\n{}    ]\n  }}\n", name,
      more, quoted_lines(features, "      "));
}

// A query and the elements of its history, for each sequence.
std::string sequences_text(const std::vector<WrittenFeature>& features) {
  std::string text;
  for (const WrittenFeature& feature : features) {
    if (feature.kind != Kind::kSequence) continue;
    const std::string name = proto_string(feature.name + "_history");
    text += fmt::format(
        "    sequence_groups {{ group_name: {} feature_names: [{}, {}] }}\n"
        "    sequence_encoders {{ din_encoder {{ input: {} attn_mlp {{ hidden_units: [32, 16] }} "
        "}} "
        "}}\n",
        name, proto_string(feature.target), proto_string(feature.name), name);
  }
  return text;
}

std::string loss_text(const LabelChoice& label) {
  switch (label.task) {
    case LabelTask::kClasses:
      return fmt::format(
          "  num_class: {}\n  losses {{ softmax_cross_entropy {{}} }}\n"
          "  metrics {{ accuracy {{}} }}\n  metrics {{ log_loss {{}} }}\n",
          label.classes.size());
    case LabelTask::kNumber:
      return fmt::format(
          "  # The model learns (label - mean) / standard_deviation; it predicts labels.\n"
          "  losses {{ l2_loss {{ mean: {:.9g} standard_deviation: {:.6g} }} }}\n"
          "  metrics {{ mean_squared_error {{}} }}\n  metrics {{ mean_absolute_error {{}} }}\n",
          label.mean, label.deviation);
    case LabelTask::kBinary:
      break;
  }
  return "  metrics { auc { thresholds: 0 } }\n  metrics { log_loss {} }\n";
}

// Whether a model has embeddings, and groups for sequences.
bool has_embeddings(const std::string& model) { return model != "lr"; }

bool reads_sequences(const std::string& model) {
  return model != "lr" && model != "fm" && model != "dlrm";
}

std::string model_text(const std::string& model, const std::vector<WrittenFeature>& features,
                       const LabelChoice& label, const TrainingChoice& sizes) {
  const std::string wide = "    group_type: WIDE\n";
  const std::string dropout =
      sizes.dropout > 0 ? fmt::format(" dropout_ratio: {:g}", sizes.dropout) : "";
  const std::string mlp =
      fmt::format("hidden_units: [{}]{}", fmt::join(sizes.hidden, ", "), dropout);
  const Names ids = names_of(features, {Kind::kCategory});
  const Names numbers = names_of(features, {Kind::kNumber});
  const Names all = names_of(features, {Kind::kCategory, Kind::kNumber});
  const std::string deep = group("deep", all, sequences_text(features));
  // The sum of one number per feature has no room for several classes; a last layer has.
  const std::string last =
      label.task == LabelTask::kClasses ? fmt::format(" final {{ hidden_units: [64] }}") : "";
  std::string text = "\nmodel_config {\n";
  if (sizes.ensemble > 1 && has_embeddings(model) && model != "fm")
    text +=
        fmt::format("  ensemble_size: {}  # models whose logits are averaged\n", sizes.ensemble);
  if (model == "lr") {
    text += group("wide", all, wide) + "  lr {}\n";
  } else if (model == "fm") {
    text += group("wide", all, wide) + group("fm", ids) + "  fm {}\n";
  } else if (model == "dlrm") {
    if (!numbers.empty()) text += group("dense", numbers);
    text += group("sparse", ids) + "  dlrm {\n";
    if (!numbers.empty())
      text += fmt::format("    dense_mlp {{ hidden_units: [64, {}] }}\n", sizes.embedding_dim);
    text += fmt::format("    final {{ {} }}\n  }}\n", mlp);
  } else if (model == "deepfm" || model == "wide_and_deep") {
    text += group("wide", all, wide) + deep;
    text += fmt::format("  {} {{ deep {{ {} }}{} }}\n", model, mlp, last);
  } else if (model == "dcn_v2") {
    text += deep;
    text +=
        fmt::format("  dcn_v2 {{ cross {{ cross_num: 2 low_rank: 32 }} deep {{ {} }} }}\n", mlp);
  } else {
    text += deep + fmt::format("  dnn {{ deep {{ {} }} }}\n", mlp);
  }
  return text + loss_text(label) + "}\n";
}

class PipelineWriter {
 public:
  PipelineWriter(const DataProfile& profile, const std::vector<ColumnChoice>& columns,
                 const LabelChoice& label, const PipelineSettings& settings)
      : profile_(profile),
        columns_(columns),
        label_(label),
        settings_(settings),
        sizes_(settings.training.value_or(choose_training(profile.total_rows, label.task))),
        model_(choose_model(columns, label, profile.total_rows, settings.model)) {
    using Lists = FeatureSizes::Lists;
    FeatureSizes sizes;
    sizes.embedding_dim = has_embeddings(model_) ? sizes_.embedding_dim : 0;
    sizes.bins = sizes_.bins;
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
           model_text(model_, features_, label_, sizes_);
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
        "  dense_optimizer {{ adam_optimizer {{ lr: {:g} }}{} }}\n",
        sizes_.sparse_lr, sizes_.dense_lr,
        sizes_.average > 0 ? fmt::format(" ema {{ decay: {:.4g} }}", sizes_.average) : "");
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
    if (const int64_t most = bad_rows_allowed(profile_); most > 0)
      text += fmt::format("  max_bad_rows: {}  # rows that cannot be read are skipped\n", most);
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
  const TrainingChoice sizes_;
  std::string model_;
  std::vector<WrittenFeature> features_;
};

}  // namespace

int64_t bad_rows_allowed(const DataProfile& profile) {
  const double unseen = profile.all_read ? 0 : std::ceil(profile.total_rows / 100);
  return std::max(profile.source.max_bad_rows, static_cast<int64_t>(unseen));
}

std::string choose_model(const std::vector<ColumnChoice>& columns, const LabelChoice& label,
                         double rows, const std::string& wanted) {
  constexpr double kFewForPairs = 5e4;  // products of embeddings need more rows than sums
  int64_t categories = 0, used = 0;
  for (const ColumnChoice& column : columns) {
    const bool has_parts = column.use == ColumnUse::kDate && column.parts.size() > 1;
    const bool has_known =
        column.use == ColumnUse::kNumber && column.value_dim == 0 && column.missing_share >= 0.01;
    if (column.use == ColumnUse::kCategory || has_parts || has_known) ++categories;
    if (column.use != ColumnUse::kSkipped && column.use != ColumnUse::kLabel &&
        column.use != ColumnUse::kWeight)
      used += column.use == ColumnUse::kDate ? static_cast<int64_t>(column.parts.size()) : 1;
  }
  const bool is_single = label.task != LabelTask::kClasses;
  if (wanted.empty() && !is_single) return "dcn_v2";
  if (wanted.empty()) return rows < kFewForPairs || categories == 0 ? "wide_and_deep" : "deepfm";
  const bool needs_ids = wanted == "deepfm" || wanted == "fm" || wanted == "dlrm";
  EMBLEM_REQUIRE(!needs_ids || categories > 0, "--model ", wanted,
                 " needs a column of categories, but all are numbers; use dnn, or name some with "
                 "--categories");
  EMBLEM_REQUIRE(wanted != "dlrm" || used > 1,
                 "--model dlrm multiplies features with each other, but there is only one; use "
                 "dnn");
  EMBLEM_REQUIRE(is_single || (wanted != "lr" && wanted != "fm"), "--model ", wanted,
                 " has one output, but the label has ", label.classes.size(),
                 " classes; use dcn_v2 or dnn, or name one class with --label-positive");
  return wanted;
}

std::vector<std::string> starter_models() {
  return {"deepfm", "dlrm", "dnn", "wide_and_deep", "dcn_v2", "fm", "lr"};
}

std::string pipeline_text(const DataProfile& profile, const std::vector<ColumnChoice>& columns,
                          const LabelChoice& label, const PipelineSettings& settings) {
  return PipelineWriter(profile, columns, label, settings).text();
}

}  // namespace emblem
