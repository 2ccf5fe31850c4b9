// hugectr/graph.h - the JSON graph of a model that HugeCTR trained: its layers, in the order in
// which their parameters are in the dense file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace emblem::hugectr {

// Categorical features of the input layer.
struct SparseInput {
  std::string top;
  int64_t slots = 0;
  bool single = true;  // one key per slot
};

struct Layer {
  size_t position = 0;  // in "layers"
  std::string type;
  std::vector<std::string> bottoms, tops;

  std::string label, dense;         // Data
  int64_t dense_dim = 0;            //
  std::vector<SparseInput> sparse;  //
  int64_t vector_size = 0;          // embeddings
  std::string combiner;             // embeddings: "sum" or "mean"
  std::vector<int64_t> units;       // InnerProduct, FusedInnerProduct, MLP
  std::vector<bool> relu;           // whether each of `units` has a ReLU
  double dropout = 0.0;             // Dropout
  double epsilon = 0.0;             // BatchNorm
  int64_t cross_layers = 0;         // MultiCross
  int64_t projection = -1;          // MultiCross: -1 where the file does not say
  int64_t leading_dim = 0;          // Reshape; 0: slots are selected, or rows are sequences
  std::vector<std::pair<int64_t, int64_t>> ranges;  // Slice

  bool is_embedding() const { return vector_size > 0; }
  std::string describe() const;  // "layer 7, InnerProduct 'fc1'", counted from 1
};

struct Graph {
  std::vector<Layer> layers;  // the first is Data

  const Layer& data() const { return layers.front(); }
  // The layer that computes a tensor. Throws when there is none.
  const Layer& producer(const std::string& tensor) const;
};

// The running statistics of a BatchNorm layer.
struct Statistics {
  std::vector<float> mean, variance;
};

// Reads *.ntp.json, which has those of all BatchNorm layers in the order of the graph.
std::vector<Statistics> parse_statistics(std::string_view text, const std::string& origin);

// `origin` names the file in messages. Throws kUnsupported, with its name, type and position, for a
// layer that no model of Emblem has, and kInvalidArgument for what is not a graph.
Graph parse_graph(std::string_view text, const std::string& origin);

}  // namespace emblem::hugectr
