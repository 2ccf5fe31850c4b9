#include "hugectr/dense_file.h"

#include <algorithm>

#include "emblem/error.h"

namespace emblem::hugectr {
namespace {

std::span<const float> cut(std::span<const float>& rest, int64_t floats) {
  const auto part = rest.first(static_cast<size_t>(floats));
  rest = rest.subspan(static_cast<size_t>(floats));
  return part;
}

}  // namespace

const Shape& DenseFile::shape(const std::string& tensor) const {
  const auto found = shapes_.find(tensor);
  EMBLEM_REQUIRE(found != shapes_.end(), "no layer before it computes '", tensor, "'");
  return found->second;
}

std::vector<Shape> DenseFile::outputs(const Layer& layer) const {
  const Shape in = layer.bottoms.empty() ? Shape() : shape(layer.bottoms.front());
  if (layer.is_embedding()) return {{in.count, layer.vector_size}};
  if (!layer.units.empty()) return {{1, layer.units.back()}};
  if (layer.type == "Interaction") {
    const Shape vectors = shape(layer.bottoms.at(1));
    const int64_t count = vectors.count + 1;
    return {{1, vectors.width + count * (count - 1) / 2 + 1}};  // and a column of zeros
  }
  if (layer.type == "Concat") {
    int64_t floats = 0;
    for (const std::string& bottom : layer.bottoms) floats += shape(bottom).floats();
    return {{1, floats}};
  }
  if (layer.type == "Reshape") {
    EMBLEM_REQUIRE(layer.leading_dim == in.floats(), layer.describe(), " reshapes ", in.floats(),
                   " floats of a sample to ", layer.leading_dim, "; expected the same number");
    return {{1, layer.leading_dim}};
  }
  if (layer.type == "Slice") {
    std::vector<Shape> parts;
    for (const auto& [begin, end] : layer.ranges) parts.push_back({1, end - begin});
    return parts;
  }
  if (layer.type == "ReduceSum") return {{1, 1}};
  return {in};  // activations, Dropout, Cast, Add
}

// The layer's parameters; a cross layer without known projection has the given one.
void DenseFile::take(const Layer& layer, int64_t projection, std::span<const float>& rest) {
  LayerWeights weights;
  int64_t inputs = shape(layer.bottoms.front()).floats();
  for (const int64_t units : layer.units) {
    const auto weight = cut(rest, inputs * units);
    weights.linear.push_back({inputs, units, weight, cut(rest, units)});
    inputs = units;
  }
  if (layer.type == "BatchNorm") {
    weights.scale = cut(rest, inputs);
    weights.shift = cut(rest, inputs);
  }
  weights.projection = layer.projection >= 0 ? layer.projection : projection;
  for (int64_t i = 0; i < layer.cross_layers; ++i) {
    CrossWeights cross;
    const int64_t width = weights.projection;
    cross.weight = cut(rest, inputs * std::max<int64_t>(1, width));
    if (width > 0) cross.second = cut(rest, width * inputs);
    cross.bias = cut(rest, inputs);
    weights.cross.push_back(cross);
  }
  weights_[layer.position] = std::move(weights);
}

DenseFile::DenseFile(const Graph& graph, std::span<const float> floats, const std::string& origin) {
  const Layer& data = graph.data();
  shapes_[data.dense] = {1, data.dense_dim};
  shapes_[data.label] = {1, 1};
  for (const SparseInput& input : data.sparse) shapes_[input.top] = {input.slots, 1};
  // What the layers need, apart from projections of cross layers that the graph does not tell.
  int64_t needed = 0, cross_floats = 0;
  for (const Layer& layer : graph.layers) {
    if (layer.type == "Data") continue;
    const std::vector<Shape> tops = outputs(layer);
    for (size_t i = 0; i < layer.tops.size(); ++i)
      shapes_[layer.tops[i]] = tops[std::min(i, tops.size() - 1)];
    if (layer.bottoms.empty()) continue;
    int64_t inputs = shape(layer.bottoms.front()).floats();
    for (const int64_t units : layer.units) {
      needed += (inputs + 1) * units;
      inputs = units;
    }
    if (layer.type == "BatchNorm") needed += 2 * inputs;
    if (layer.cross_layers == 0) continue;
    needed += layer.cross_layers * inputs;  // biases
    if (layer.projection >= 0)
      needed += layer.cross_layers * inputs * (layer.projection > 0 ? 2 * layer.projection : 1);
    else
      cross_floats += layer.cross_layers * inputs;
  }
  const auto found = static_cast<int64_t>(floats.size());
  int64_t projection = 0;
  if (cross_floats > 0) {  // one weight per column, or two matrices
    const int64_t rest = found - needed;
    projection = rest == cross_floats ? 0 : rest / (2 * cross_floats);
    needed += projection == 0 ? cross_floats : 2 * projection * cross_floats;
  }
  EMBLEM_REQUIRE(found == needed, origin, " has ", found,
                 " floats, but the layers of the graph have ", needed,
                 "; is it the dense file of this graph?");
  for (const Layer& layer : graph.layers) {
    if (!layer.units.empty() || layer.cross_layers > 0 || layer.type == "BatchNorm")
      take(layer, projection, floats);
  }
}

}  // namespace emblem::hugectr
