// model/models.h - the models emblem knows.
//
// A model is a file with its builder and a function NAME_model() that describes it; the list is in
// model/models.cc.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "config/proto/pipeline.pb.h"
#include "model/layers/groups.h"
#include "model/layers/heads.h"
#include "model/layers/inputs.h"
#include "nn/graph.h"

namespace emblem {

// The logits of each head, [rows, classes], in the order of towers: a node, or one per domain.
using HeadLogits = std::vector<std::vector<Node>>;

struct ModelKind {
  const char* name;  // its field in ModelConfig
  // The groups that it reads, whether they exist or not; optional ones only if they do.
  std::vector<GroupUse> (*groups)(const config::PipelineConfig&) = nullptr;
  // Throws Error for settings that do not fit each other or the groups, all of which exist.
  void (*check)(const config::PipelineConfig&, const FeatureLayout&) = nullptr;
  // Adds a line for each setting that another one makes useless.
  void (*warn)(const config::ModelConfig&, std::vector<std::string>& warnings) = nullptr;
  // Adds its layers to the graph: a model with one head, or one with several.
  Node (*build)(Graph&, ModelInputs&, int64_t classes) = nullptr;
  HeadLogits (*build_heads)(Graph&, ModelInputs&, const std::vector<HeadSpec>&) = nullptr;
};

// Null when the pipeline names no model, or one that is not supported.
const ModelKind* find_model(const config::ModelConfig& model);
std::vector<std::string> supported_models();  // in the order of the schema

// The model that the configuration selects, without the losses of its heads.
std::vector<Head> build_model(Graph& graph, ModelInputs& inputs);

// Width of the vectors in the model's WIDE groups (wide_embedding_dim of its settings), and how
// they start (wide_init_fn); "" is the default.
int64_t wide_dim_of(const config::ModelConfig& model);
std::string wide_init_of(const config::ModelConfig& model);

// "dlrm", "deepfm", ... as in the configuration.
std::string model_name(const config::ModelConfig& model);

// Throws Error for several classes.
void require_one_class(int64_t classes, const char* model);

}  // namespace emblem
