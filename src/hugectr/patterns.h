// hugectr/patterns.h - parts of a graph that are parts of Emblem's models: MLPs and inputs.
#pragma once

#include <string>
#include <vector>

#include "hugectr/dense_file.h"
#include "hugectr/graph.h"

namespace emblem::hugectr {

struct MlpLayer {
  LinearWeights weights;
  bool relu = false;
  double dropout = 0.0;
  const Layer* norm = nullptr;  // BatchNorm between the linear layer and its activation
};

// Linear layers with activations and dropout, from a tensor back to `source`.
struct Mlp {
  std::vector<MlpLayer> layers;
  std::string source;
};

// The dense features (null) or the vectors of an embedding, flat.
using InputPart = const Layer*;

class Patterns {
 public:
  Patterns(const Graph& graph, const DenseFile& dense) : graph_(graph), dense_(dense) {}

  // The layer that computes the tensor, past Cast layers and slices of all columns.
  const Layer& source(const std::string& tensor) const;
  bool is_dense(const std::string& tensor) const;
  // May be of no layers.
  Mlp mlp(std::string tensor) const;
  // What a flat tensor of features is made of, in order; throws for other tensors.
  std::vector<InputPart> inputs(const std::string& tensor) const;
  // Throws kUnsupported: `layer` does not fit because `reason`.
  [[noreturn]] void refuse(const Layer& layer, const std::string& reason) const;

  const LayerWeights& weights(const Layer& layer) const { return dense_.weights(layer); }
  int64_t floats(const std::string& tensor) const { return dense_.shape(tensor).floats(); }

 private:
  std::string skip(std::string tensor) const;
  bool keeps_all(const Layer& layer, const std::string& top) const;

  const Graph& graph_;
  const DenseFile& dense_;
};

}  // namespace emblem::hugectr
