#include "hugectr/convert.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "emblem/error.h"
#include "hugectr/patterns.h"

namespace emblem::hugectr {
namespace {

constexpr double kEpsilon = 1e-5;  // epsilon of Emblem's batch norm

// "C{3..28}", or "C3".
std::string range(const char* prefix, int64_t first, int64_t count) {
  if (count == 1) return cat(prefix, first);
  return cat(prefix, "{", first, "..", first + count - 1, "}");
}

class Converter {
 public:
  Converter(const Graph& graph, const DenseFile& dense, const std::vector<Statistics>& statistics)
      : graph_(graph), patterns_(graph, dense), statistics_(statistics) {
    add_settings();
    int64_t first = 1;
    for (const SparseInput& input : graph.data().sparse) {
      first_slots_.push_back(first);
      first += input.slots;
    }
  }

  ConvertedModel convert() {
    const Layer& loss = graph_.layers.back();
    if (loss.type != "BinaryCrossEntropyLoss")
      patterns_.refuse(loss, "expected BinaryCrossEntropyLoss as the last layer");
    const std::string& logit = loss.bottoms.front();
    const Layer& last = patterns_.source(logit);
    if (last.type == "Add") {
      convert_wide_and_deep(last);
      return std::move(model_);
    }
    const Mlp top = logit_mlp(logit);
    const Layer& source = patterns_.source(top.source);
    if (source.type == "Interaction") {
      convert_dlrm(source, top);
    } else if (source.type == "MultiCross") {
      convert_cross(source, top);
    } else if (source.type == "Concat" && is_dcn(source)) {
      convert_dcn(source, top);
    } else {
      set_groups({{"deep", group_of(patterns_.inputs(top.source))}});
      set_mlp(top, 1, "deep", network().mutable_dnn()->mutable_deep());
      set_logit(top, {});
    }
    return std::move(model_);
  }

 private:
  using Order = std::vector<int64_t>;  // HugeCTR's column of each of ours; empty: the same

  config::ModelConfig& network() { return *model_.config.mutable_model_config(); }

  void add_settings() {
    config::PipelineConfig& config = model_.config;
    auto& train = *config.mutable_train_config();
    train.set_num_epochs(1);
    train.mutable_sparse_optimizer()->mutable_adagrad_optimizer()->set_lr(0.01f);
    train.mutable_dense_optimizer()->mutable_adam_optimizer()->set_lr(0.001f);
    auto& data = *config.mutable_data_config();
    data.set_dataset_type(config::CsvDataset);
    data.set_with_header(true);
    data.add_label_fields("label");
    data.set_fg_mode(config::FG_NONE);
    network().add_metrics()->mutable_auc();
    network().add_metrics()->mutable_log_loss();
    if (graph_.data().dense_dim > 0) {
      auto& feature = *config.add_feature_configs()->mutable_raw_feature();
      feature.set_feature_name(range("I", 1, graph_.data().dense_dim));
    }
  }

  // ---- features ----

  // The names of an embedding's features, which are declared at the first call.
  std::string features_of(const Layer& embedding) {
    const std::string& input = embedding.bottoms.front();
    const auto& all = graph_.data().sparse;
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const SparseInput& one) { return one.top == input; });
    if (found == all.end()) patterns_.refuse(embedding, "its input is not one of Data");
    const std::string names =
        range("C", first_slots_[static_cast<size_t>(found - all.begin())], found->slots);
    if (std::count(declared_.begin(), declared_.end(), &embedding) > 0) return names;
    declared_.push_back(&embedding);
    auto& column = *model_.config.mutable_data_config()->add_input_fields();
    column.set_input_name(names);
    column.set_input_type(config::INT64);  // keys are integers, not text
    auto& feature = *model_.config.add_feature_configs()->mutable_id_feature();
    feature.set_feature_name(names);
    feature.set_embedding_name(embedding.tops.front());
    feature.set_embedding_dim(static_cast<uint32_t>(embedding.vector_size));
    feature.set_pooling(embedding.combiner);
    feature.mutable_dynamicemb()->set_score_strategy("NO_EVICTION");
    auto& missing = *feature.mutable_dynamicemb()->mutable_eval_initializer_args();
    missing.set_mode("constant");
    missing.set_value(0.0f);
    return names;
  }

  // Counts embeddings in the order of the graph, which is that of the sparse files.
  void add_table(const Layer& embedding, const std::string& name) {
    const auto before =
        std::count_if(graph_.layers.begin(), graph_.layers.end(), [&](const Layer& layer) {
          return layer.is_embedding() && layer.position < embedding.position;
        });
    model_.tables.push_back({name, static_cast<size_t>(before), embedding.vector_size});
  }

  std::vector<std::string> group_of(const std::vector<InputPart>& parts) {
    std::vector<std::string> names;
    for (const InputPart part : parts) {
      if (part == nullptr) {
        names.push_back(range("I", 1, graph_.data().dense_dim));
      } else {
        if (std::count(declared_.begin(), declared_.end(), part) > 0)
          patterns_.refuse(*part, "it is used more than once");
        names.push_back(features_of(*part));
        add_table(*part, part->tops.front());
      }
    }
    return names;
  }

  void set_groups(const std::vector<std::pair<std::string, std::vector<std::string>>>& groups) {
    for (const auto& [name, features] : groups) {
      auto& group = *network().add_feature_groups();
      group.set_group_name(name);
      for (const std::string& feature : features) group.add_feature_names(feature);
      if (name == "wide") group.set_group_type(config::WIDE);
    }
  }

  // ---- parameters ----

  void set_linear(const std::string& name, const LinearWeights& linear, const Order& order = {}) {
    const auto inputs = order.empty() ? linear.inputs : static_cast<int64_t>(order.size());
    std::vector<float> weight(static_cast<size_t>(inputs * linear.units));
    for (int64_t in = 0; in < inputs; ++in) {
      const int64_t from = order.empty() ? in : order[static_cast<size_t>(in)];
      for (int64_t unit = 0; unit < linear.units; ++unit)
        weight[static_cast<size_t>(unit * inputs + in)] =
            linear.weight[static_cast<size_t>(from * linear.units + unit)];
    }
    model_.parameters[name + ".weight"] = std::move(weight);
    model_.parameters[name + ".bias"].assign(linear.bias.begin(), linear.bias.end());
  }

  // All layers but the last `without`; those of `scope` in the model's graph.
  void set_mlp(const Mlp& mlp, size_t without, const std::string& scope, config::MLP* config,
               const Order& order = {}) {
    const size_t count = mlp.layers.size() - without;
    bool drops = false;
    for (size_t i = 0; i < count; ++i) {
      const MlpLayer& layer = mlp.layers[i];
      config->add_hidden_units(static_cast<uint32_t>(layer.weights.units));
      config->add_dropout_ratio(static_cast<float>(layer.dropout));
      drops |= layer.dropout > 0;
      if (!layer.relu)
        throw Error(ErrorCode::kUnsupported, cat("hidden layer ", i + 1, " of '", scope,
                                                 "' has no activation; expected ReLU after each"));
      const std::string name = cat(scope, ".", i);
      set_linear(name, layer.weights, i == 0 ? order : Order());
      if (i > 0 && (layer.norm != nullptr) != config->use_bn())
        throw Error(ErrorCode::kUnsupported,
                    cat("some hidden layers of '", scope,
                        "' have BatchNorm and some have not; expected all or none"));
      config->set_use_bn(layer.norm != nullptr);
      if (layer.norm != nullptr) set_norm(name, *layer.norm);
    }
    if (!drops) config->clear_dropout_ratio();
    if (!config->use_bn()) config->clear_use_bn();
  }

  // The linear layer before it has no bias in Emblem: the mean that is subtracted takes its place.
  void set_norm(const std::string& name, const Layer& norm) {
    const auto before =
        std::count_if(graph_.layers.begin(), graph_.layers.end(), [&](const Layer& layer) {
          return layer.type == "BatchNorm" && layer.position < norm.position;
        });
    const LayerWeights& weights = patterns_.weights(norm);
    const std::vector<float> bias = std::exchange(model_.parameters[name + ".bias"], {});
    model_.parameters.erase(name + ".bias");
    Statistics statistics = statistics_.at(static_cast<size_t>(before));
    for (size_t i = 0; i < bias.size(); ++i) {
      statistics.mean.at(i) -= bias[i];
      statistics.variance.at(i) += static_cast<float>(norm.epsilon - kEpsilon);
    }
    model_.parameters[name + ".norm.weight"].assign(weights.scale.begin(), weights.scale.end());
    model_.parameters[name + ".norm.bias"].assign(weights.shift.begin(), weights.shift.end());
    model_.statistics[name + ".norm.running_mean"] = std::move(statistics.mean);
    model_.statistics[name + ".norm.running_var"] = std::move(statistics.variance);
  }

  // Takes the last layer of an MLP that computes the logit.
  void set_logit(const Mlp& mlp, const Order& order) {
    set_linear("output.0", mlp.layers.back().weights, mlp.layers.size() == 1 ? order : Order());
  }

  Mlp logit_mlp(const std::string& tensor) const {
    Mlp mlp = patterns_.mlp(tensor);
    const bool fits = !mlp.layers.empty() && mlp.layers.back().weights.units == 1 &&
                      !mlp.layers.back().relu && mlp.layers.back().norm == nullptr;
    if (!fits)
      patterns_.refuse(patterns_.source(tensor),
                       "expected a linear layer of one unit without an activation");
    return mlp;
  }

  void set_cross(const Layer& layer) {
    const LayerWeights& weights = patterns_.weights(layer);
    const int64_t cols = patterns_.floats(layer.bottoms.front());
    for (size_t i = 0; i < weights.cross.size(); ++i) {
      const CrossWeights& cross = weights.cross[i];
      const std::string name = cat("cross.", i);
      if (weights.projection == 0) {
        model_.parameters[name + ".weight"].assign(cross.weight.begin(), cross.weight.end());
        model_.parameters[name + ".bias"].assign(cross.bias.begin(), cross.bias.end());
        continue;
      }
      set_linear(name + ".v", {cols, weights.projection, cross.weight, {}});
      model_.parameters.erase(name + ".v.bias");
      set_linear(name + ".u", {weights.projection, cols, cross.second, cross.bias});
    }
  }

  void set_cross_config(const Layer& layer, config::CrossV2* config) {
    config->set_cross_num(static_cast<uint32_t>(layer.cross_layers));
    config->set_low_rank(static_cast<uint32_t>(patterns_.weights(layer).projection));
  }

  // ---- models ----

  void convert_dlrm(const Layer& interaction, const Mlp& top) {
    const Layer& embedding = patterns_.source(interaction.bottoms.at(1));
    if (!embedding.is_embedding()) patterns_.refuse(embedding, "expected an embedding here");
    const Mlp bottom = bottom_mlp(interaction.bottoms.front());
    auto& dlrm = *network().mutable_dlrm();
    dlrm.set_arch_with_sparse(false);
    set_groups({{"dense", group_of({nullptr})}, {"sparse", group_of({&embedding})}});
    set_mlp(bottom, 0, "bottom", dlrm.mutable_dense_mlp());
    Order order(static_cast<size_t>(top.layers.front().weights.inputs - 1));  // no column of zeros
    std::iota(order.begin(), order.end(), 0);
    set_mlp(top, 1, "top", dlrm.mutable_final(), order);
    set_logit(top, order);
  }

  Mlp bottom_mlp(const std::string& tensor) const {
    Mlp bottom = patterns_.mlp(tensor);
    if (!patterns_.is_dense(bottom.source) || bottom.layers.empty())
      patterns_.refuse(patterns_.source(bottom.source), "expected an MLP over the dense features");
    return bottom;
  }

  // Cross layers alone: over an MLP of the dense features and vectors, or over all features.
  void convert_cross(const Layer& cross, const Mlp& top) {
    if (patterns_.weights(cross).projection == 0)
      patterns_.refuse(cross, "cross layers without a projection need a deep part next to them");
    const Layer& joined = patterns_.source(cross.bottoms.front());
    set_cross(cross);
    set_logit(top, {});
    const bool has_bottom = joined.type == "Concat" && joined.bottoms.size() == 2 &&
                            !patterns_.mlp(joined.bottoms.front()).layers.empty();
    if (!has_bottom) {
      use_version_1();
      set_groups({{"deep", group_of(patterns_.inputs(cross.bottoms.front()))}});
      auto& dcn = *network().mutable_dcn_v2();
      set_cross_config(cross, dcn.mutable_cross());
      return set_mlp(top, 1, "final", dcn.mutable_final());
    }
    const Mlp bottom = bottom_mlp(joined.bottoms.front());
    set_groups({{"dense", group_of({nullptr})},
                {"sparse", group_of(patterns_.inputs(joined.bottoms.at(1)))}});
    auto& dlrm = *network().mutable_dlrm();
    set_mlp(bottom, 0, "bottom", dlrm.mutable_dense_mlp());
    set_cross_config(cross, dlrm.mutable_cross());
    set_mlp(top, 1, "top", dlrm.mutable_final());
  }

  bool is_dcn(const Layer& concat) const {
    return std::any_of(concat.bottoms.begin(), concat.bottoms.end(), [&](const std::string& name) {
      return patterns_.source(name).type == "MultiCross";
    });
  }

  void convert_dcn(const Layer& concat, const Mlp& top) {
    if (concat.bottoms.size() != 2) patterns_.refuse(concat, "expected a cross and a deep part");
    const size_t at = patterns_.source(concat.bottoms[0]).type == "MultiCross" ? 0 : 1;
    const Layer& cross = patterns_.source(concat.bottoms[at]);
    const Mlp deep = patterns_.mlp(concat.bottoms[1 - at]);
    const auto parts = patterns_.inputs(cross.bottoms.front());
    if (deep.layers.empty() || patterns_.inputs(deep.source) != parts)
      patterns_.refuse(concat, "expected cross layers and an MLP over the same features");
    use_version_1();
    set_groups({{"deep", group_of(parts)}});
    set_cross(cross);
    // Ours is [cross, deep].
    const int64_t columns = patterns_.floats(concat.bottoms[at]);
    Order order(static_cast<size_t>(top.layers.front().weights.inputs));
    std::iota(order.begin(), order.end(), 0);
    if (at == 1) std::rotate(order.begin(), order.end() - columns, order.end());
    config::MLP final;
    set_mlp(top, 1, "final", &final, order);
    set_logit(top, order);
    if (patterns_.weights(cross).projection == 0) {
      auto& dcn = *network().mutable_dcn_v1();
      dcn.mutable_cross()->set_cross_num(static_cast<uint32_t>(cross.cross_layers));
      set_mlp(deep, 0, "deep", dcn.mutable_deep());
      *dcn.mutable_final() = final;
    } else {
      auto& dcn = *network().mutable_dcn_v2();
      set_cross_config(cross, dcn.mutable_cross());
      set_mlp(deep, 0, "deep", dcn.mutable_deep());
      *dcn.mutable_final() = final;
    }
  }

  // Whose DCN has a bias in the last layer.
  void use_version_1() {
    model_.config.set_semantics_version(1);
    model_.config.mutable_data_config()->clear_fg_mode();
  }

  void convert_wide_and_deep(const Layer& add) {
    if (add.bottoms.size() != 2) patterns_.refuse(add, "expected a wide and a deep part");
    const size_t at = patterns_.mlp(add.bottoms[0]).layers.empty() ? 0 : 1;
    const Layer* sum = &patterns_.source(add.bottoms[at]);
    const std::string& tensor = sum->type == "ReduceSum" ? sum->bottoms.front() : add.bottoms[at];
    const auto wide = patterns_.inputs(tensor);
    if (wide.size() != 1 || wide[0] == nullptr || wide[0]->vector_size != 1 ||
        (sum->type != "ReduceSum" && patterns_.floats(tensor) != 1))
      patterns_.refuse(*sum, "expected the sum of an embedding of dimension 1");
    const Mlp deep = logit_mlp(add.bottoms[1 - at]);
    const std::string wide_features = features_of(*wide[0]);
    add_table(*wide[0], wide[0]->tops.front() + "_wide");
    set_groups({{"wide", {wide_features}}, {"deep", group_of(patterns_.inputs(deep.source))}});
    auto& model = *network().mutable_wide_and_deep();
    model.set_wide_embedding_dim(1);
    set_mlp(deep, 1, "deep", model.mutable_deep());
    set_logit(deep, {});
  }

  const Graph& graph_;
  Patterns patterns_;
  const std::vector<Statistics>& statistics_;  // statistics of each BatchNorm layer
  std::vector<int64_t> first_slots_;           // first slot of each sparse input
  std::vector<const Layer*> declared_;         // embeddings whose features are in the configuration
  ConvertedModel model_;
};

}  // namespace

ConvertedModel convert(const Graph& graph, const DenseFile& dense,
                       const std::vector<Statistics>& statistics) {
  return Converter(graph, dense, statistics).convert();
}

}  // namespace emblem::hugectr
