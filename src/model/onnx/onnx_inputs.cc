#include "model/onnx/onnx_inputs.h"

#include <algorithm>

#include "emblem/error.h"
#include "model/models.h"
#include "nn/onnx/onnx.pb.h"

namespace emblem {
namespace {

bool has_one_value(const FeatureSpec& feature) {
  return value_dim_of(feature.settings, feature.settings.in_sequence) == 1;
}

// An element of a sequence with one value has no axis of values.
bool has_value_axis(const FeatureSpec& feature) {
  return feature.sequence < 0 || !has_one_value(feature) || feature.settings.weighted;
}

}  // namespace

OnnxInputs::OnnxInputs(Model& model, const config::PipelineConfig& config,
                       const FeatureLayout& layout, OnnxGraph& to, OnnxTables& tables)
    : layout_(layout),
      to_(to),
      tables_(tables),
      shape_(0),
      inputs_(shape_, config, layout, wide_dim_of(config.model_config())),
      model_lookups_(model.lookup_inputs()) {
  std::map<std::string, std::vector<const Table*>> tables_of;
  for (size_t l = 0; l < inputs_.lookups().size(); ++l) {
    const LookupGroup& group = inputs_.lookups()[l];
    settings_.push_back(tables_of_lookup(config, group, ModelUse::kEvaluation));
    for (size_t f = 0; f < group.features.size(); ++f)
      tables_of[group.features[f].feature->name].push_back(model_lookups_[l].tables.at(f));
  }
  for (const auto& [feature, read] : tables_of) tables_.add_feature(feature, read);
}

void OnnxInputs::feed(OnnxLayers& layers) {
  for (size_t l = 0; l < inputs_.lookups().size(); ++l) {
    const LookupGroup& group = inputs_.lookups()[l];
    std::map<int, std::vector<OnnxPiece>> pieces;  // by node
    for (size_t f = 0; f < group.features.size(); ++f) {
      const GroupedFeature& each = group.features[f];
      const Table& table = *model_lookups_[l].tables.at(f);
      const Pooling pooling = settings_[l].uses.at(group.is_stacked ? 0 : f).pooling;
      pieces[each.node.id].push_back({each.dim, [this, &each, &table, pooling] {
                                        return pooled(*each.feature, table, pooling);
                                      }});
    }
    for (auto& [node, of_node] : pieces) layers.feed(Node{node}, std::move(of_node));
  }
  if (inputs_.dense().id >= 0) feed_numbers(layers, inputs_.dense(), -1);
  for (size_t s = 0; s < layout_.sequences.size(); ++s) {
    const Space space = inputs_.sequence_spaces()[s];
    if (space == Space{}) continue;
    layers.feed(space, {.lengths = [this, s] { return lengths(s); },
                        .padded = [this, s] { return padded_length(s); },
                        .most = layout_.sequences[s].max_length});
    const Node node = inputs_.sequence_numbers()[s];
    if (node.id >= 0) feed_numbers(layers, node, static_cast<int64_t>(s));
  }
}

void OnnxInputs::feed_numbers(OnnxLayers& layers, Node node, int64_t sequence) {
  std::vector<const FeatureSpec*> features;
  for (const FeatureSpec& feature : layout_.features)
    if (feature.kind == FeatureKind::kDense && feature.sequence == sequence &&
        !feature.is_intermediate)
      features.push_back(&feature);
  std::sort(features.begin(), features.end(), [](const FeatureSpec* a, const FeatureSpec* b) {
    return a->dense_begin < b->dense_begin;
  });
  std::vector<OnnxPiece> pieces;
  for (const FeatureSpec* feature : features)
    pieces.push_back({feature->dense_cols, [this, feature] { return numbers(*feature); }});
  layers.feed(node, std::move(pieces));
}

std::string OnnxInputs::add(const std::string& name, OnnxType type,
                            const std::vector<OnnxAxis>& axes, const std::string& text) {
  std::string& made = made_[name];
  if (made.empty()) made = to_.input(name, type, axes, text);
  return made;
}

std::vector<OnnxAxis> OnnxInputs::axes_of(const FeatureSpec& feature) const {
  std::vector<OnnxAxis> axes = {"batch"};
  if (feature.sequence >= 0)
    axes.push_back(layout_.sequences[static_cast<size_t>(feature.sequence)].name + "_length");
  if (feature.kind == FeatureKind::kDense) {
    axes.push_back(feature.dense_cols);
  } else if (has_value_axis(feature)) {
    if (has_one_value(feature))
      axes.push_back(int64_t{1});
    else
      axes.push_back(feature.name + "_values");
  }
  return axes;
}

std::string OnnxInputs::numbers(const FeatureSpec& feature) {
  const std::string made =
      add(feature.name, OnnxType::kFloat, axes_of(feature), "numbers, after their transforms");
  if (feature.sequence >= 0) axes_.try_emplace(static_cast<size_t>(feature.sequence), made);
  return made;
}

std::string OnnxInputs::keys(const FeatureSpec& feature, const Table& table) {
  const bool is_new = !made_.contains(feature.name);
  const std::string file = tables_.keys_file(feature.name);
  const std::string made =
      add(feature.name, OnnxType::kInt64, axes_of(feature),
          file.empty() ? cat("keys, 0 to ", tables_.rows_of(table) - 1, "; -1: no value")
                       : cat("positions of keys in ", file, "; ", tables_.rows_of(table),
                             ": a key that is not there; -1: no value"));
  if (feature.sequence >= 0) axes_.try_emplace(static_cast<size_t>(feature.sequence), made);
  if (is_new && !file.empty()) {
    onnx::StringStringEntryProto& entry = *to_.model().add_metadata_props();
    entry.set_key("keys:" + feature.name);
    entry.set_value(file);
  }
  return made;
}

std::string OnnxInputs::weights(const FeatureSpec& feature) {
  return add(feature.name + ".weights", OnnxType::kFloat, axes_of(feature),
             "weights of the keys of " + feature.name);
}

std::string OnnxInputs::lengths(size_t sequence) {
  return add(layout_.sequences[sequence].name + ".lengths", OnnxType::kInt64, {"batch", int64_t{1}},
             "elements of each row, without padding");
}

std::string OnnxInputs::padded_length(size_t sequence) {
  const auto found = axes_.find(sequence);
  if (found == axes_.end())
    throw Error(ErrorCode::kInternal,
                cat("ONNX: nothing of \"", layout_.sequences[sequence].name, "\" is read"));
  return to_.add("Slice",
                 {to_.add("Shape", {found->second}), to_.integers({1}), to_.integers({2})});
}

std::string OnnxInputs::pooled(const FeatureSpec& feature, const Table& table, Pooling pooling) {
  const std::string keys = this->keys(feature, table);
  // The last row has zeros.
  const std::string rows =
      to_.add("Gather", {tables_.rows(table), to_.add("Max", {keys, to_.integers({-1})})});
  return has_value_axis(feature) ? pooled_values(feature, pooling, keys, rows) : rows;
}

// rows [.., values, dim], pooled over the values of keys [.., values].
std::string OnnxInputs::pooled_values(const FeatureSpec& feature, Pooling pooling,
                                      const std::string& keys, std::string rows) {
  const auto sum = [&](const std::string& x, int64_t axis, bool keeps_axis) {
    return to_.add("ReduceSum", {x, to_.integers({axis})}, {{"keepdims", int64_t{keeps_axis}}});
  };
  const std::string zero = to_.constant(0.0f), one = to_.constant(1.0f);
  const std::string is_there = to_.add("GreaterOrEqual", {keys, to_.integers({0})});
  const bool is_weighted = feature.settings.weighted;
  const std::string weights =
      to_.add("Where", {is_there, is_weighted ? this->weights(feature) : one, zero});
  if (is_weighted)
    rows = to_.add("Mul", {rows, to_.add("Unsqueeze", {weights, to_.integers({-1})})});
  const std::string all = sum(rows, -2, false);
  if (pooling == Pooling::kSum) return all;
  // The mean over weights that sum to 0 is 0.
  const std::string total = sum(weights, -1, true);
  const std::string is_zero = to_.add("Equal", {total, zero});
  return to_.add("Where",
                 {is_zero, zero, to_.add("Div", {all, to_.add("Where", {is_zero, one, total})})});
}

}  // namespace emblem
