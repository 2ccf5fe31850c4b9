#include "model/check/check_model.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "config/check/check_feature.h"
#include "config/feature/heads.h"
#include "config/feature/matching.h"
#include "config/feature/towers.h"
#include "core/text/text.h"
#include "emblem/error.h"
#include "loss/from_config.h"
#include "metric/kinds.h"
#include "model/models.h"

namespace emblem {
namespace {

using config::LossConfig;
using config::MetricConfig;

using Names = std::vector<std::string>;

// What messages call a tower: `tower "ctr"`, or model_config.
std::string title(const TowerSpec& tower, const config::ModelConfig& model) {
  return has_task_towers(model) ? cat("tower \"", printable(tower.name), "\"") : "model_config";
}

// What the outputs of a tower mean.
HeadKind kind_of(const TowerSpec& tower) {
  return tower.losses.empty() ? HeadKind::kBinary : kind_of_head(tower.losses[0]);
}

// A name that is not among the fields of data_config.
void require_field(const Names& fields, const std::string& name, const std::string& setting,
                   const char* list) {
  if (std::find(fields.begin(), fields.end(), name) != fields.end()) return;
  const auto nearest = nearest_name(name, fields);
  throw Error(
      ErrorCode::kInvalidArgument,
      cat(setting, " is \"", printable(name), "\", which data_config.", list, " does not name",
          nearest ? cat("; did you mean \"", *nearest, "\"?") : "; add it there"));
}

Names all_labels(const config::DataConfig& data) {
  return {data.label_fields().begin(), data.label_fields().end()};
}

// ---- losses ----

std::string checked_name_of(const LossConfig& loss) {
  if (loss.sid_loss_case() != LossConfig::SID_LOSS_NOT_SET) {
    const auto* field = loss.GetDescriptor()->FindFieldByNumber(loss.sid_loss_case());
    throw Error(ErrorCode::kInvalidArgument,
                cat("loss ", field->name(), " is not supported yet; remove it"));
  }
  return loss_name(loss);
}

// The feature that holds the sessions of a loss.
void check_session(const std::string& name, const FeatureLayout& layout, const std::string& path) {
  EMBLEM_REQUIRE(!name.empty(), path,
                 " has no session_name; name the feature that holds the session");
  try {
    const FeatureSpec& session = layout.find(name);
    require_in_batches(session.settings);
    EMBLEM_REQUIRE(session.kind == FeatureKind::kSparse && session.sequence < 0, "feature \"",
                   printable(session.name), "\" is ",
                   session.sequence < 0 ? "numeric" : "a sequence",
                   ", expected a categorical feature");
  } catch (const Error& error) {
    throw Error(error.code(), cat(path, ".session_name: ", error.what()));
  }
}

// num_class that a loss asks for.
void check_classes(const TowerSpec& tower, const AnyLoss& loss, const std::string& owner) {
  const std::string name = name_of(loss);
  if (head_of(loss) != HeadKind::kClass) {
    EMBLEM_REQUIRE(tower.num_class == 1, owner, ".num_class is ", tower.num_class, ", but ", name,
                   " has one output; set num_class: 1",
                   head_of(loss) == HeadKind::kNumber ? "" : ", or use softmax_cross_entropy");
    return;
  }
  const int64_t classes = classes_of(loss);
  EMBLEM_REQUIRE(classes == 0 || tower.num_class == classes, owner, ".num_class is ",
                 tower.num_class, ", but ", name, " needs ", classes, " classes");
  EMBLEM_REQUIRE(tower.num_class >= 2, owner, ".num_class is ", tower.num_class, ", but ", name,
                 " needs at least 2 classes");
}

void check_losses(const TowerSpec& tower, const FeatureLayout& layout, const std::string& owner) {
  std::set<std::string> seen;
  for (size_t i = 0; i < tower.losses.size(); ++i) {
    const LossConfig& loss = tower.losses[i];
    const std::string path = cat(owner, ".losses[", i, "]");
    const std::string name = checked_name_of(loss);
    EMBLEM_REQUIRE(!name.empty(), path, " names no loss; give binary_cross_entropy");
    EMBLEM_REQUIRE(seen.insert(name).second, owner, ".losses has ", name,
                   " twice; keep one of them");
    EMBLEM_REQUIRE(kind_of_head(loss) == kind_of_head(tower.losses[0]), owner, ".losses has ",
                   loss_name(tower.losses[0]), " and ", name,
                   ", which need different outputs; keep one of them");
    const AnyLoss any = loss_from(loss);
    check_classes(tower, any, owner);
    const std::string settings = cat(path, ".", name);
    std::visit([&](const auto& one) { one.check(settings); }, any);
    if (const auto session = session_of(loss)) check_session(*session, layout, settings);
  }
  if (tower.losses.empty()) {
    EMBLEM_REQUIRE(tower.num_class == 1, owner, ".num_class is ", tower.num_class,
                   ", but the default loss, binary_cross_entropy, has one output; set num_class: "
                   "1, or losses to softmax_cross_entropy");
  }
}

// Rows of a matching model compete with each other, whatever their labels.
void check_matching_loss(const TowerSpec& tower, const std::string& model) {
  EMBLEM_REQUIRE(tower.losses.size() == 1 && tower.losses[0].has_softmax_cross_entropy(),
                 "model_config.losses of ", model,
                 " must be one softmax_cross_entropy {}, over the candidates of each row");
  EMBLEM_REQUIRE(tower.losses[0].softmax_cross_entropy().label_smoothing() == 0,
                 "model_config.losses[0].softmax_cross_entropy.label_smoothing has no effect on ",
                 model, "; remove it");
  EMBLEM_REQUIRE(tower.num_class == 1, "model_config.num_class is ", tower.num_class, ", but ",
                 model, " ranks candidates and has no classes; remove num_class");
}

// ---- metrics ----

void check_metrics(const TowerSpec& tower, const MeasuredHead& head, const std::string& owner) {
  for (const MetricConfig& metric : tower.metrics) {
    if (metric.metric_case() == MetricConfig::METRIC_NOT_SET) continue;  // metric_names refuses it
    const std::string problem = metric_problem(metric, head);
    EMBLEM_REQUIRE(problem.empty(), owner, ": ", problem);
  }
}

// ---- towers ----

void check_tower_fields(const TowerSpec& tower, const config::DataConfig& data,
                        const std::string& owner) {
  const Names labels = all_labels(data);
  EMBLEM_REQUIRE(!tower.label.empty(), owner,
                 " has no label_name; name one of data_config.label_fields");
  require_field(labels, tower.label, owner + ".label_name", "label_fields");
  if (!tower.indicator.empty())
    require_field(labels, tower.indicator, owner + ".task_space_indicator_label", "label_fields");
  if (!tower.sample_weight.empty())
    require_field({data.sample_weight_fields().begin(), data.sample_weight_fields().end()},
                  tower.sample_weight, owner + ".sample_weight_name", "sample_weight_fields");
  EMBLEM_REQUIRE(!tower.losses.empty(), owner,
                 " has no losses; give it binary_cross_entropy, for example");
  EMBLEM_REQUIRE(tower.weight >= 0, owner, ".weight is ", tower.weight, ", expected at least 0");
  EMBLEM_REQUIRE(tower.in_space >= 0 && tower.out_space >= 0, owner, ".",
                 tower.in_space < 0 ? "in" : "out", "_task_space_weight is ",
                 tower.in_space < 0 ? tower.in_space : tower.out_space, ", expected at least 0");
}

void check_relations(const TowerSpec& tower, const std::set<std::string>& earlier,
                     const std::string& owner) {
  std::set<std::string> seen;
  for (const std::string& name : tower.relations) {
    EMBLEM_REQUIRE(earlier.contains(name), owner, ".relation_tower_names has \"", printable(name),
                   "\", which is not an earlier tower; towers read those before them in the file");
    EMBLEM_REQUIRE(seen.insert(name).second, owner, ".relation_tower_names has \"", printable(name),
                   "\" twice; keep one of them");
  }
}

void check_domains(const config::PipelineConfig& config) {
  const config::PEPNet& model = config.model_config().pepnet();
  if (!model.has_domain_input_name()) return;
  require_field(all_labels(config.data_config()), model.domain_input_name(),
                "pepnet.domain_input_name", "label_fields");
  EMBLEM_REQUIRE(model.task_domain_num() > 0,
                 "pepnet.task_domain_num is 0, expected the number of domains");
}

// data_config.label_classes names the classes of all labels that have classes.
void check_label_classes(const std::vector<TowerSpec>& towers,
                         const config::PipelineConfig& config) {
  const int64_t named = config.data_config().label_classes_size();
  if (named == 0) return;
  EMBLEM_REQUIRE(!config.data_config().has_label_positive(),
                 "data_config has label_classes and label_positive; keep one of them");
  bool has_classes = false;
  for (const TowerSpec& tower : towers) {
    const HeadKind kind = kind_of(tower);
    if (kind == HeadKind::kNumber) continue;
    has_classes = true;
    const int64_t classes = kind == HeadKind::kBinary ? 2 : tower.num_class;
    EMBLEM_REQUIRE(named == classes, title(tower, config.model_config()), " has ", classes,
                   " classes, but data_config.label_classes has ", named,
                   " values; expected one for each class");
  }
  EMBLEM_REQUIRE(has_classes,
                 "data_config.label_classes is set, but l2_loss learns numbers; remove it, or use "
                 "softmax_cross_entropy");
}

}  // namespace

void check_heads(const config::PipelineConfig& config, const FeatureLayout& layout) {
  const config::ModelConfig& model = config.model_config();
  const std::vector<TowerSpec> towers = towers_of(model);
  EMBLEM_REQUIRE(!towers.empty(), "model_config.",
                 model.GetDescriptor()->FindFieldByNumber(model.model_case())->name(),
                 " has no task_towers; add one for each label");
  std::set<std::string> earlier;
  for (const TowerSpec& tower : towers) {
    const std::string owner = title(tower, model);
    if (has_task_towers(model)) {
      EMBLEM_REQUIRE(!tower.name.empty(), "a task tower has no tower_name");
      check_tower_fields(tower, config.data_config(), owner);
      check_relations(tower, earlier, owner);
      EMBLEM_REQUIRE(earlier.insert(tower.name).second, "two task towers are called \"",
                     printable(tower.name), "\"; rename one of them");
    }
    if (matching_of(model)) {
      check_matching_loss(tower, model_name(model));
      check_metrics(tower, {.ranks_candidates = true}, owner);
    } else {
      check_losses(tower, layout, owner);
      check_metrics(tower, {kind_of(tower), tower.num_class}, owner);
    }
  }
  if (!matching_of(model)) check_label_classes(towers, config);
  check_domains(config);
}

}  // namespace emblem
