#include "init/model_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "emblem/error.h"
#include "init/feature_names.h"

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

}  // namespace

bool has_embeddings(const std::string& model) { return model != "lr"; }

bool reads_sequences(const std::string& model) {
  return model != "lr" && model != "fm" && model != "dlrm";
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

std::string model_text(const std::string& model, const std::vector<WrittenFeature>& features,
                       const LabelChoice& label, const ModelSizes& sizes) {
  const std::string wide = "    group_type: WIDE\n";
  const std::string dropout =
      sizes.dropout > 0 ? fmt::format(" dropout_ratio: {:g}", sizes.dropout) : "";
  const std::string mlp = fmt::format("hidden_units: {}{}", sizes.hidden, dropout);
  const Names ids = names_of(features, {Kind::kCategory});
  const Names numbers = names_of(features, {Kind::kNumber});
  const Names all = names_of(features, {Kind::kCategory, Kind::kNumber});
  const std::string deep = group("deep", all, sequences_text(features));
  // The sum of one number a feature has no room for several classes; a last layer has.
  const std::string last =
      label.task == LabelTask::kClasses ? fmt::format(" final {{ hidden_units: [64] }}") : "";
  std::string text = "\nmodel_config {\n";
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

}  // namespace emblem
