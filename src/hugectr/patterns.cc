#include "hugectr/patterns.h"

#include <algorithm>

#include "emblem/error.h"

namespace emblem::hugectr {

void Patterns::refuse(const Layer& layer, const std::string& reason) const {
  throw Error(ErrorCode::kUnsupported,
              cat(layer.describe(), ": ", reason,
                  "; the graph is none of DLRM, DCN, Wide & Deep and plain MLPs"));
}

bool Patterns::keeps_all(const Layer& layer, const std::string& top) const {
  if (layer.type == "Cast") return true;
  if (layer.type != "Slice") return false;
  const auto at = std::find(layer.tops.begin(), layer.tops.end(), top) - layer.tops.begin();
  const auto [begin, end] = layer.ranges.at(static_cast<size_t>(at));
  return begin == 0 && end == floats(layer.bottoms.front());
}

// The tensor whose values `tensor` has.
std::string Patterns::skip(std::string tensor) const {
  for (;;) {
    const Layer& layer = graph_.producer(tensor);
    if (!keeps_all(layer, tensor)) return tensor;
    tensor = layer.bottoms.front();
  }
}

const Layer& Patterns::source(const std::string& tensor) const {
  return graph_.producer(skip(tensor));
}

bool Patterns::is_dense(const std::string& tensor) const {
  return skip(tensor) == graph_.data().dense;
}

Mlp Patterns::mlp(std::string tensor) const {
  Mlp mlp;
  bool relu = false;
  double dropout = 0.0;
  const Layer* norm = nullptr;
  for (;;) {
    tensor = skip(tensor);
    const Layer& layer = graph_.producer(tensor);
    if (layer.type == "Dropout") {
      dropout = layer.dropout;
    } else if (layer.type == "ReLU") {
      relu = true;
    } else if (layer.type == "BatchNorm" && norm == nullptr) {
      norm = &layer;
    } else if (!layer.units.empty()) {
      if (norm != nullptr && layer.relu.back())
        refuse(*norm, "it follows an activation; expected it before one");
      const auto& linear = weights(layer).linear;
      for (size_t i = linear.size(); i-- > 0; relu = false, dropout = 0.0, norm = nullptr)
        mlp.layers.push_back({linear[i], layer.relu[i] || relu, dropout, norm});
    } else {
      if (relu || dropout != 0.0 || norm != nullptr)
        refuse(layer,
               "an activation, BatchNorm or Dropout follows it; expected one after a linear "
               "layer");
      std::reverse(mlp.layers.begin(), mlp.layers.end());
      mlp.source = tensor;
      return mlp;
    }
    tensor = layer.bottoms.front();
  }
}

std::vector<InputPart> Patterns::inputs(const std::string& tensor) const {
  if (is_dense(tensor)) return {nullptr};
  const Layer& layer = source(tensor);
  if (layer.type == "Concat") {
    std::vector<InputPart> parts;
    for (const std::string& bottom : layer.bottoms) {
      const auto more = inputs(bottom);
      parts.insert(parts.end(), more.begin(), more.end());
    }
    return parts;
  }
  if (layer.is_embedding()) return {&layer};
  if (layer.type == "Reshape") {
    const Layer& embedding = source(layer.bottoms.front());
    if (embedding.is_embedding()) return {&embedding};
  }
  refuse(layer, "expected dense features or the vectors of an embedding here");
}

}  // namespace emblem::hugectr
