// hugectr/dense_file.h - the parameters of a graph's layers: float32, without a header, in the
// order of the layers.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "hugectr/graph.h"

namespace emblem::hugectr {

// A tensor of a sample: `count` vectors of `width` floats; 1 of all where it is flat.
struct Shape {
  int64_t count = 1, width = 0;

  int64_t floats() const { return count * width; }
  bool operator==(const Shape&) const = default;
};

struct LinearWeights {
  int64_t inputs = 0, units = 0;
  std::span<const float> weight;  // [inputs, units]
  std::span<const float> bias;    // [units]
};

struct CrossWeights {
  std::span<const float> weight;  // [cols]; with a projection U: [cols, projection]
  std::span<const float> second;  // with a projection V: [projection, cols], else empty
  std::span<const float> bias;    // [cols]
};

struct LayerWeights {
  std::vector<LinearWeights> linear;    // weights of each of Layer::units
  std::vector<CrossWeights> cross;      // weights of each cross layer
  int64_t projection = 0;               // 0: none
  std::span<const float> scale, shift;  // for BatchNorm: [cols]
};

class DenseFile {
 public:
  // Assigns all floats of the file to layers. `floats` is borrowed. Throws when the graph's shapes
  // do not fit each other, or not the size of the file, which `origin` names.
  DenseFile(const Graph& graph, std::span<const float> floats, const std::string& origin);

  const LayerWeights& weights(const Layer& layer) const { return weights_.at(layer.position); }
  const Shape& shape(const std::string& tensor) const;

 private:
  std::vector<Shape> outputs(const Layer& layer) const;
  void take(const Layer& layer, int64_t projection, std::span<const float>& rest);

  std::map<std::string, Shape> shapes_;
  std::map<size_t, LayerWeights> weights_;  // by position
};

}  // namespace emblem::hugectr
