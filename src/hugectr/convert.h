// hugectr/convert.h - a trained graph of HugeCTR as one of Emblem's models.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/proto/pipeline.pb.h"
#include "hugectr/dense_file.h"
#include "hugectr/graph.h"

namespace emblem::hugectr {

struct ConvertedTable {
  std::string name;      // name of Emblem's table
  size_t embedding = 0;  // which embedding layer of the graph, counted from 0
  int64_t dim = 0;
};

struct ConvertedModel {
  // Features I1, I2, ... (dense) and C1, C2, ... (the slots of all sparse inputs, in order).
  // max_capacity of the tables is not set.
  config::PipelineConfig config;
  std::map<std::string, std::vector<float>> parameters;  // by the names of the model's graph
  std::map<std::string, std::vector<float>> statistics;  // likewise
  std::vector<ConvertedTable> tables;
};

// `statistics`: of each BatchNorm layer. Throws kUnsupported when the layers do not make one of the
// models, with the layer at which it differs.
ConvertedModel convert(const Graph& graph, const DenseFile& dense,
                       const std::vector<Statistics>& statistics);

}  // namespace emblem::hugectr
