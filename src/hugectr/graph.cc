#include "hugectr/graph.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/text/json_error.h"
#include "core/text/shallow_json.h"
#include "emblem/error.h"

namespace emblem::hugectr {
namespace {

using nlohmann::json;

std::vector<std::string> names_of(const json& layer, const char* key) {
  if (!layer.contains(key)) return {};
  if (layer[key].is_string()) return {layer[key].get<std::string>()};
  return layer[key].get<std::vector<std::string>>();
}

void read_data(const json& from, Layer& layer) {
  const json& label = from.at("label");
  const json& dense = from.at("dense");
  EMBLEM_REQUIRE(label.at("top").is_string() && label.at("label_dim") == 1, layer.describe(),
                 " has several labels; expected one");
  layer.label = label.at("top").get<std::string>();
  layer.dense = dense.at("top").get<std::string>();
  layer.dense_dim = dense.at("dense_dim").get<int64_t>();
  for (const json& sparse : from.at("sparse")) {
    SparseInput input{sparse.at("top").get<std::string>(), sparse.at("slot_num").get<int64_t>()};
    if (sparse.contains("nnz_per_slot")) {
      const json& nnz = sparse["nnz_per_slot"];
      for (const json& one : nnz.is_array() ? nnz : json::array({nnz})) input.single &= one == 1;
    } else if (sparse.contains("max_feature_num_per_sample")) {  // older releases
      input.single = sparse["max_feature_num_per_sample"] == input.slots;
    }
    layer.sparse.push_back(std::move(input));
  }
}

void read_embedding(const json& from, Layer& layer) {
  const json& settings = from.at("sparse_embedding_hparam");
  layer.vector_size = settings.at("embedding_vec_size").get<int64_t>();
  const json combiner = settings.value("combiner", json("sum"));
  layer.combiner =
      combiner.is_number() ? (combiner == 0 ? "sum" : "mean") : combiner.get<std::string>();
  EMBLEM_REQUIRE(layer.vector_size > 0 && (layer.combiner == "sum" || layer.combiner == "mean"),
                 layer.describe(), " has vectors of ", layer.vector_size, " and the combiner ",
                 layer.combiner, "; expected 1 or more, and sum or mean");
}

bool is_relu(const json& activation, const Layer& layer) {
  const std::string name = activation.get<std::string>();
  if (name == "Relu" || name == "ReLU") return true;
  if (name == "None" || name == "NonExist") return false;
  throw Error(ErrorCode::kUnsupported, cat(layer.describe(), " has the activation ", name,
                                           ", which is not supported (expected Relu or None)"));
}

void read_mlp(const json& from, Layer& layer) {
  const json& settings = from.at("mlp_param");
  layer.units = settings.at("num_outputs").get<std::vector<int64_t>>();
  const bool biased = settings.contains("biases")
                          ? settings["biases"] == json(std::vector<bool>(layer.units.size(), true))
                          : settings.value("use_bias", true);
  EMBLEM_REQUIRE(biased, layer.describe(), " has layers without a bias; expected one in each");
  for (size_t i = 0; i < layer.units.size(); ++i) {
    layer.relu.push_back(is_relu(settings.contains("activations")
                                     ? settings["activations"].at(i)
                                     : settings.value("activation", json("Relu")),
                                 layer));
  }
}

// Whether it is a layer that models of Emblem have.
bool read_settings(const json& from, Layer& layer) {
  const std::string& type = layer.type;
  if (type == "Data") {
    read_data(from, layer);
  } else if (type == "DistributedSlotSparseEmbeddingHash" ||
             type == "LocalizedSlotSparseEmbeddingHash" ||
             type == "LocalizedSlotSparseEmbeddingOneHot") {
    read_embedding(from, layer);
  } else if (type == "InnerProduct" || type == "FusedInnerProduct") {
    layer.units = {from.at("fc_param").at("num_output").get<int64_t>()};
    layer.relu = {type == "FusedInnerProduct"};
  } else if (type == "MLP") {
    read_mlp(from, layer);
  } else if (type == "Dropout") {
    layer.dropout = from.value("rate", 0.5);
  } else if (type == "BatchNorm") {
    layer.epsilon = from.contains("bn_param") ? from["bn_param"].value("eps", 1e-5) : 1e-5;
  } else if (type == "MultiCross") {
    layer.cross_layers = from.at("mc_param").at("num_layers").get<int64_t>();
    layer.projection = from["mc_param"].value("projection_dim", int64_t{-1});
  } else if (type == "Reshape") {
    if (!from.contains("selected") && from.value("time_step", 0) == 0)
      layer.leading_dim = from.value("leading_dim", int64_t{0});
  } else if (type == "Slice") {
    for (const json& range : from.at("ranges"))
      layer.ranges.emplace_back(range.at(0).get<int64_t>(), range.at(1).get<int64_t>());
  } else {
    const auto others = {
        "ReLU", "Cast", "Concat", "Interaction", "Add", "ReduceSum", "BinaryCrossEntropyLoss"};
    return std::find(others.begin(), others.end(), type) != others.end();
  }
  return true;
}

Layer read_layer(const json& from, size_t position, const std::string& origin) {
  Layer layer;
  layer.position = position;
  layer.type = from.at("type").get<std::string>();
  layer.bottoms = names_of(from, "bottom");
  layer.tops = names_of(from, "top");
  if (!read_settings(from, layer)) {
    throw Error(ErrorCode::kUnsupported,
                cat(origin, ": ", layer.describe(),
                    ", is not supported; emblem has DLRM, DCN, Wide & Deep and plain MLPs"));
  }
  return layer;
}

}  // namespace

std::string Layer::describe() const {
  return cat("layer ", position + 1, ", ", type,
             tops.empty() ? std::string() : cat(" '", tops.front(), "'"));
}

const Layer& Graph::producer(const std::string& tensor) const {
  for (const Layer& layer : layers) {
    if (std::find(layer.tops.begin(), layer.tops.end(), tensor) != layer.tops.end()) return layer;
    if (layer.type == "Data" && layer.dense == tensor) return layer;
  }
  throw Error(ErrorCode::kInvalidArgument, cat("no layer of the graph computes '", tensor, "'"));
}

std::vector<Statistics> parse_statistics(std::string_view text, const std::string& origin) {
  std::vector<Statistics> all;
  try {
    const json root = json::parse(text, shallow_json);
    for (const json& layer : root.at("layers"))
      all.push_back(
          {layer.at("mean").get<std::vector<float>>(), layer.at("var").get<std::vector<float>>()});
  } catch (const json::exception& error) {
    throw Error(
        ErrorCode::kInvalidArgument,
        cat(origin, ": not the statistics of BatchNorm layers: ", json_problem(error.what())));
  }
  return all;
}

Graph parse_graph(std::string_view text, const std::string& origin) {
  Graph graph;
  try {
    const json root = json::parse(text, shallow_json);
    for (const json& layer : root.at("layers"))
      graph.layers.push_back(read_layer(layer, graph.layers.size(), origin));
  } catch (const json::exception& error) {
    throw Error(ErrorCode::kInvalidArgument,
                cat(origin, ": ",
                    graph.layers.empty() ? "this is not the JSON graph of a model"
                                         : cat("layer ", graph.layers.size() + 1),
                    ": ", json_problem(error.what())));
  }
  EMBLEM_REQUIRE(!graph.layers.empty() && graph.layers.front().type == "Data", origin,
                 ": the first layer is not Data");
  return graph;
}

}  // namespace emblem::hugectr
