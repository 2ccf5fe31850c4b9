// model/builders.h - the models emblem knows. Each adds its layers to the graph and returns the
// logits: of one head, [rows, classes], or of each tower in the order of the configuration.
#pragma once

#include "config/pipeline.pb.h"
#include "model/heads.h"
#include "model/inputs.h"
#include "nn/graph.h"

namespace emblem {

Node build_lr(Graph& graph, ModelInputs& inputs, const config::LR& model);
Node build_fm(Graph& graph, ModelInputs& inputs, const config::FM& model);
Node build_dnn(Graph& graph, ModelInputs& inputs, const config::DNN& model, int64_t classes);
Node build_wide_and_deep(Graph& graph, ModelInputs& inputs, const config::WideAndDeep& model,
                         int64_t classes);
Node build_deepfm(Graph& graph, ModelInputs& inputs, const config::DeepFM& model, int64_t classes);
Node build_dcn_v1(Graph& graph, ModelInputs& inputs, const config::DCNV1& model, int64_t classes);
Node build_dcn_v2(Graph& graph, ModelInputs& inputs, const config::DCNV2& model, int64_t classes);
Node build_dlrm(Graph& graph, ModelInputs& inputs, const config::DLRM& model, int64_t classes);
Node build_multi_tower(Graph& graph, ModelInputs& inputs, const config::MultiTower& model,
                       int64_t classes);
Node build_multi_tower_din(Graph& graph, ModelInputs& inputs, const config::MultiTowerDIN& model,
                           int64_t classes);
Node build_mask_net(Graph& graph, ModelInputs& inputs, const config::MaskNet& model,
                    int64_t classes);
Node build_wukong(Graph& graph, ModelInputs& inputs, const config::WuKong& model, int64_t classes);
Node build_xdeepfm(Graph& graph, ModelInputs& inputs, const config::xDeepFM& model,
                   int64_t classes);

// Also adds the losses by which the light network learns from the booster.
std::vector<Node> build_rocket_launching(Graph& graph, ModelInputs& inputs,
                                         const config::RocketLaunching& model,
                                         const std::vector<HeadSpec>& heads);
std::vector<Node> build_mmoe(Graph& graph, ModelInputs& inputs, const config::MMoE& model);
std::vector<Node> build_ple(Graph& graph, ModelInputs& inputs, const config::PLE& model);
std::vector<Node> build_dbmtl(Graph& graph, ModelInputs& inputs, const config::DBMTL& model);
// Of each tower: one node, or one per domain where domain_input_name is given.
std::vector<std::vector<Node>> build_pepnet(Graph& graph, ModelInputs& inputs,
                                            const config::PEPNet& model);

// The tower of a task over x. Parameters are named by the tower and the suffix.
Node add_task_tower(Graph& graph, Node x, const config::TaskTower& tower,
                    const std::string& suffix = "");

// The model that the configuration selects, without the losses of its heads.
std::vector<Head> build_model(Graph& graph, ModelInputs& inputs);

// Width of the vectors in the model's WIDE groups, and how they start; "" is the default.
int64_t wide_dim_of(const config::ModelConfig& model);
std::string wide_init_of(const config::ModelConfig& model);

// "dlrm", "deepfm", ... as in the configuration.
std::string model_name(const config::ModelConfig& model);

}  // namespace emblem
