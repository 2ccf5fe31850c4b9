#include "checkpoint/input_ranges.h"

#include <algorithm>
#include <array>

#include "core/text/text.h"

namespace emblem {
namespace {

constexpr std::string_view kPrefix = "int8.";
constexpr const char* kParts[] = {"low", "high", "mean", "rounded_mean"};

std::string tensor_name(const std::string& layer, const char* part) {
  return cat(kPrefix, layer, ".", part);
}

template <class Ranges>
auto parts_of(Ranges& ranges) {
  return std::array{&ranges.low, &ranges.high, &ranges.mean, &ranges.rounded_mean};
}

}  // namespace

std::vector<TensorRef> tensors_of(const LayerRanges& ranges) {
  std::vector<TensorRef> tensors;
  for (const auto& [layer, of_layer] : ranges) {
    const auto parts = parts_of(of_layer);
    for (size_t i = 0; i < parts.size(); ++i)
      tensors.push_back(
          TensorRef::of<float>(tensor_name(layer, kParts[i]), {of_layer.inputs()}, *parts[i]));
  }
  return tensors;
}

bool is_input_range(const TensorRef& tensor) { return tensor.name.starts_with(kPrefix); }

void read_input_ranges(const SafetensorsFile& file, const std::string& path, Graph& graph) {
  LayerRanges all;
  for (const std::string& layer : graph.int8_layers()) {
    const std::string first = tensor_name(layer, kParts[0]);
    const auto found = std::find_if(file.tensors().begin(), file.tensors().end(),
                                    [&](const TensorRef& tensor) { return tensor.name == first; });
    EMBLEM_REQUIRE(found != file.tensors().end(), path, " has no ranges of inputs of the layer ",
                   layer,
                   ", which int8 needs; write the model by emblem export --precision int8 "
                   "--calibrate DATA, or choose another precision");
    const auto parts = parts_of(all[layer]);
    for (size_t i = 0; i < parts.size(); ++i) {
      parts[i]->resize(static_cast<size_t>(found->elements()));
      file.read<float>(tensor_name(layer, kParts[i]), *parts[i]);
    }
  }
  graph.set_input_ranges(all);
}

}  // namespace emblem
