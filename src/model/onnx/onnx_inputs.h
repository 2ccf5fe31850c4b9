// model/onnx/onnx_inputs.h - the inputs of an ONNX model: keys and numbers of features, after
// their transforms, and what lookups make of them. Only inputs that a layer reads are added.
//
// | input | type and shape | |
// |---|---|---|
// | FEATURE, of numbers | float [batch, cols] | |
// | FEATURE, categorical | int64 [batch, values] | padded with -1 at the end, also for no value |
// | FEATURE.weights | float like FEATURE | if the feature is weighted |
// | SEQUENCE.lengths | int64 [batch, 1] | elements of each row |
// | FEATURE of a sequence | int64 [batch, length], or [batch, length, values] of several values |
//
// Numbers of a sequence are float [batch, length, cols].
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/layers/inputs.h"
#include "model/lookup/table_config.h"
#include "model/model.h"
#include "model/onnx/onnx_tables.h"
#include "nn/onnx/layers.h"

namespace emblem {

class OnnxInputs {
 public:
  // `config` and `layout` are those that the model was made with. All outlive this object.
  OnnxInputs(Model& model, const config::PipelineConfig& config, const FeatureLayout& layout,
             OnnxGraph& to, OnnxTables& tables);
  void feed(OnnxLayers& layers);

 private:
  std::string numbers(const FeatureSpec& feature);
  std::string keys(const FeatureSpec& feature, const Table& table);
  std::string weights(const FeatureSpec& feature);
  std::string lengths(size_t sequence);
  std::string padded_length(size_t sequence);
  std::string pooled(const FeatureSpec& feature, const Table& table, Pooling pooling);
  std::string pooled_values(const FeatureSpec& feature, Pooling pooling, const std::string& keys,
                            std::string rows);
  void feed_numbers(OnnxLayers& layers, Node node, int64_t sequence);
  std::vector<OnnxAxis> axes_of(const FeatureSpec& feature) const;
  std::string add(const std::string& name, OnnxType type, const std::vector<OnnxAxis>& axes,
                  const std::string& text);

  const FeatureLayout& layout_;
  OnnxGraph& to_;
  OnnxTables& tables_;
  Graph shape_;  // whose first nodes are the inputs, as of the model's graph
  ModelInputs inputs_;
  std::vector<LookupTables> settings_;             // of each of inputs_.lookups()
  std::vector<Model::LookupInput> model_lookups_;  // likewise
  std::map<std::string, std::string> made_;        // inputs
  std::map<size_t, std::string> axes_;             // the padded length of sequences
};

}  // namespace emblem
