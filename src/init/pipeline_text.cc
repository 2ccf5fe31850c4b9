#include "init/pipeline_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "core/text.h"
#include "data/format/decoder.h"
#include "emblem/error.h"
#include "init/feature_names.h"

namespace emblem {
namespace {

constexpr int64_t kLargestHashed = 10000;  // distinct values

// What follows from the number of rows.
struct Sizes {
  int64_t batch = 0, epochs = 0, patience = 0, shuffled_batches = 0, dim = 0;
  std::string hidden;
};

Sizes sizes_for(double rows) {
  Sizes sizes;
  const auto steps_of_200 = static_cast<uint64_t>(std::max(1.0, rows / 200));
  sizes.batch = static_cast<int64_t>(std::clamp<uint64_t>(std::bit_floor(steps_of_200), 32, 4096));
  sizes.epochs = rows < 2e3 ? 100 : rows < 2e4 ? 50 : rows < 2e6 ? 20 : rows < 2e7 ? 5 : 1;
  sizes.patience = rows < 2e4 ? 5 : rows < 2e5 ? 3 : 2;
  sizes.shuffled_batches = rows < 1e6 ? 256 : 64;
  sizes.dim = rows < 1e4 ? 4 : rows < 1e6 ? 8 : 16;
  sizes.hidden = rows < 5e3   ? "[32, 16]"
                 : rows < 5e4 ? "[64, 32]"
                 : rows < 2e6 ? "[128, 64]"
                              : "[256, 128, 64]";
  return sizes;
}

// Quoted names, several on a line.
std::string name_list(const std::vector<std::string>& names, const std::string& indent) {
  std::string text, line;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string name = proto_string(names[i]) + (i + 1 < names.size() ? ", " : "");
    if (!line.empty() && line.size() + name.size() > 100) {
      text += indent + std::string(trim(line)) + "\n";
      line.clear();
    }
    line += name;
  }
  return text + indent + line + "\n";
}

class Writer {
 public:
  Writer(const DataProfile& profile, const std::vector<ColumnChoice>& columns,
         const LabelChoice& label, const PipelineSettings& settings)
      : profile_(profile),
        columns_(columns),
        label_(label),
        settings_(settings),
        sizes_(sizes_for(profile.total_rows)) {
    std::vector<std::string> names;
    for (const ColumnProfile& column : profile.columns) names.push_back(column.name);
    names_ = feature_names_for(names);
    for (size_t i = 0; i < columns.size(); ++i) {
      if (columns[i].use == ColumnUse::kNumber) numbers_.push_back(names_[i]);
      if (columns[i].use == ColumnUse::kCategory) ids_.push_back(names_[i]);
    }
    all_ = ids_;
    all_.insert(all_.end(), numbers_.begin(), numbers_.end());
    EMBLEM_REQUIRE(!all_.empty(), profile.source.input,
                   " has no column to learn from besides the label; --categories and --numbers use "
                   "columns that were skipped");
    model_ = settings.model.empty() ? (ids_.empty() ? "dnn" : "deepfm") : settings.model;
    const bool needs_ids = model_ == "deepfm" || model_ == "fm" || model_ == "dlrm";
    EMBLEM_REQUIRE(!needs_ids || !ids_.empty(), "--model ", model_,
                   " needs a column of categories, but all are numbers; use dnn, or name some with "
                   "--categories");
    EMBLEM_REQUIRE(model_ != "dlrm" || all_.size() > 1,
                   "--model dlrm multiplies features with each other, but there is only one; use "
                   "dnn");
  }

  std::string text() const { return input() + training() + data() + features() + model(); }

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
    std::string text =
        "train_config {\n"
        "  sparse_optimizer { adagrad_optimizer { lr: 0.02 } }  # of embedding tables\n"
        "  dense_optimizer { adam_optimizer { lr: 0.001 } }\n";
    text += fmt::format("  num_epochs: {}\n", sizes_.epochs);
    text += "  save_checkpoints_steps: 0  # one checkpoint, at the end\n  keep_checkpoint_max: 1\n";
    if (sizes_.epochs > 1 && has_evaluations()) {
      text += fmt::format(
          "  eval_epochs: 1\n"
          "  early_stopping {{ metric: \"auc\" patience: {} }}  # and the best weights are kept\n",
          sizes_.patience);
    }
    return text + "}\n\n";
  }

  std::string data() const {
    std::string text = "data_config {\n";
    const DataSource& source = profile_.source;
    text += fmt::format("  dataset_type: {}\n", config::DatasetType_Name(source.type));
    if (source.type == config::CsvDataset) text += csv_settings();
    text += fmt::format("  label_fields: {}\n", proto_string(name_of(ColumnUse::kLabel)));
    if (!label_.positive.empty())
      text += fmt::format("  label_positive: {}  # the value that is 1; all others are 0\n",
                          proto_string(label_.positive));
    if (const std::string weight = name_of(ColumnUse::kWeight); !weight.empty())
      text += fmt::format("  sample_weight_fields: {}\n", proto_string(weight));
    const std::vector<std::string> absent = na_strings_for(profile_, columns_);
    if (!absent.empty())
      text += "  # Texts that are missing values.\n  na_strings: [\n" + name_list(absent, "    ") +
              "  ]\n";
    if (source.max_bad_rows > 0)
      text += fmt::format("  max_bad_rows: {}  # rows that cannot be read are skipped\n",
                          source.max_bad_rows);
    text += "  fg_mode: FG_DAG\n";
    text += fmt::format("  batch_size: {}\n  shuffle: true\n  shuffle_buffer_size: {}\n",
                        sizes_.batch, sizes_.shuffled_batches);
    if (settings_.eval_input.empty() && has_evaluations())
      text +=
          fmt::format("  holdout_ratio: {:g}  # of the rows are not trained on, but evaluated on\n",
                      settings_.holdout_ratio);
    return text + "}\n\n";
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

  std::string features() const {
    std::string text, skipped;
    for (size_t i = 0; i < columns_.size(); ++i) {
      const ColumnChoice& choice = columns_[i];
      const std::string& column = profile_.columns[i].name;
      if (choice.use == ColumnUse::kSkipped) {
        skipped += fmt::format("#   {}: {}\n", printable(column), choice.why);
      } else if (choice.use == ColumnUse::kNumber || choice.use == ColumnUse::kCategory) {
        text += comment(profile_.columns[i], choice);
        text += choice.use == ColumnUse::kNumber ? number(i) : category(i);
      }
    }
    return skipped.empty() ? text : text + "# Skipped columns:\n" + skipped;
  }

  static std::string comment(const ColumnProfile& column, const ColumnChoice& choice) {
    std::string text = fmt::format("# {}", choice.found);
    if (choice.use == ColumnUse::kNumber)
      text += fmt::format(" from {:g} to {:g}, mean {:.4g}", column.min, column.max,
                          column.moments.mean());
    else
      text += fmt::format(", {} distinct values", choice.distinct);
    if (choice.missing_share > 0)
      text += fmt::format(", {:.2g} % missing", 100 * choice.missing_share);
    if (!choice.warning.empty()) text += fmt::format("\n# {}", choice.warning);
    return text + "\n";
  }

  // feature_name, and the column where it is called otherwise.
  std::string name(size_t i) const {
    const std::string& column = profile_.columns[i].name;
    std::string text = fmt::format("feature_name: {}", proto_string(names_[i]));
    if (names_[i] != column) text += fmt::format(" expression: {}", proto_string("item:" + column));
    return text;
  }

  std::string number(size_t i) const {
    std::string text = fmt::format("feature_configs {{ raw_feature {{ {} normalizer: {}", name(i),
                                   proto_string(columns_[i].normalizer));
    if (columns_[i].value_dim > 0) text += fmt::format(" value_dim: {}", columns_[i].value_dim);
    if (!columns_[i].default_value.empty())
      text += fmt::format(" default_value: {}", proto_string(columns_[i].default_value));
    return text + " } }\n";
  }

  std::string category(size_t i) const {
    std::string text = fmt::format("feature_configs {{ id_feature {{ {}", name(i));
    const ColumnChoice& choice = columns_[i];
    if (!choice.separator.empty())
      text += fmt::format(" separator: {}", proto_string(choice.separator));
    if (!choice.separator.empty() || profile_.columns[i].is_list) text += " pooling: \"mean\"";
    if (const int64_t buckets = hash_bucket_size_for(choice.distinct))
      text += fmt::format(" hash_bucket_size: {}", buckets);
    else
      text += fmt::format(" dynamicemb {{ max_capacity: {} score_strategy: \"LFU\" }}",
                          capacity_for(choice.distinct));
    if (model_ != "lr") text += fmt::format(" embedding_dim: {}", sizes_.dim);
    return text + " } }\n";
  }

  static std::string group(const std::string& name, const std::vector<std::string>& features,
                           const std::string& type = "") {
    return fmt::format(
        "  feature_groups {{\n    group_name: \"{}\"{}\n    feature_names: [\n{}    ]\n  }}\n",
        name, type, name_list(features, "      "));
  }

  std::string model() const {
    const std::string wide = " group_type: WIDE";
    const std::string mlp = fmt::format("hidden_units: {}", sizes_.hidden);
    const std::vector<std::string>& wide_features = ids_.empty() ? all_ : ids_;
    std::string text = "\nmodel_config {\n";
    if (model_ == "lr") {
      text += group("wide", all_, wide) + "  lr {}\n";
    } else if (model_ == "fm") {
      text += group("wide", all_, wide) + group("fm", ids_) + "  fm {}\n";
    } else if (model_ == "dlrm") {
      if (!numbers_.empty()) text += group("dense", numbers_);
      text += group("sparse", ids_) + "  dlrm {\n";
      if (!numbers_.empty())
        text += fmt::format("    dense_mlp {{ hidden_units: [64, {}] }}\n", sizes_.dim);
      text += fmt::format("    final {{ {} }}\n  }}\n", mlp);
    } else if (model_ == "deepfm" || model_ == "wide_and_deep") {
      text += group("wide", wide_features, wide) + group("deep", all_);
      text += fmt::format("  {} {{ deep {{ {} }} }}\n", model_, mlp);
    } else if (model_ == "dcn_v2") {
      text += group("deep", all_);
      text +=
          fmt::format("  dcn_v2 {{ cross {{ cross_num: 2 low_rank: 32 }} deep {{ {} }} }}\n", mlp);
    } else {
      text += group("deep", all_) + fmt::format("  dnn {{ deep {{ {} }} }}\n", mlp);
    }
    return text + "  metrics { auc { thresholds: 0 } }\n  metrics { log_loss {} }\n}\n";
  }

  const DataProfile& profile_;
  const std::vector<ColumnChoice>& columns_;
  const LabelChoice& label_;
  const PipelineSettings& settings_;
  Sizes sizes_;
  std::string model_;
  std::vector<std::string> names_;  // of features, by column
  std::vector<std::string> numbers_, ids_, all_;
};

}  // namespace

std::vector<std::string> starter_models() {
  return {"deepfm", "dlrm", "dnn", "wide_and_deep", "dcn_v2", "fm", "lr"};
}

int64_t hash_bucket_size_for(int64_t distinct) {
  return distinct > kLargestHashed ? 0 : std::max<int64_t>(100, 10 * distinct);
}

int64_t capacity_for(int64_t distinct) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * distinct)));
}

std::string pipeline_text(const DataProfile& profile, const std::vector<ColumnChoice>& columns,
                          const LabelChoice& label, const PipelineSettings& settings) {
  return Writer(profile, columns, label, settings).text();
}

}  // namespace emblem
