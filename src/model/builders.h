// model/builders.h - the models emblem knows. Each adds its layers to the graph and returns the
// logits.
#pragma once

#include "config/model.pb.h"
#include "model/inputs.h"
#include "nn/graph.h"

namespace emblem {

Node build_lr(Graph& graph, ModelInputs& inputs, const config::LR& model);
Node build_fm(Graph& graph, ModelInputs& inputs, const config::FM& model);
Node build_dnn(Graph& graph, ModelInputs& inputs, const config::DNN& model);
Node build_wide_and_deep(Graph& graph, ModelInputs& inputs, const config::WideAndDeep& model);
Node build_deepfm(Graph& graph, ModelInputs& inputs, const config::DeepFM& model);
Node build_dcn_v1(Graph& graph, ModelInputs& inputs, const config::DCNV1& model);
Node build_dcn_v2(Graph& graph, ModelInputs& inputs, const config::DCNV2& model);
Node build_dlrm(Graph& graph, ModelInputs& inputs, const config::DLRM& model);

// The model that the configuration selects.
Node build_model(Graph& graph, ModelInputs& inputs, const config::ModelConfig& model);

// Width of the vectors in the model's WIDE groups, and how they start; "" is the default.
int64_t wide_dim_of(const config::ModelConfig& model);
std::string wide_init_of(const config::ModelConfig& model);

// "dlrm", "deepfm", ... as in the configuration.
std::string model_name(const config::ModelConfig& model);

// An MLP as configured, its parameters named "scope.i....". Without hidden units it is x itself.
Node add_mlp(Graph& graph, const std::string& scope, Node x, const config::MLP& mlp);
// The last layer: one logit, named "scope.0....".
Node add_logit(Graph& graph, const std::string& scope, Node x);

}  // namespace emblem
