#include "model/models.h"

#include <google/protobuf/descriptor.h>

#include "core/text/joined.h"
#include "emblem/error.h"

namespace emblem {

// The list of models.
#define EMBLEM_MODELS(MODEL) \
  MODEL(dlrm)                \
  MODEL(deepfm)              \
  MODEL(multi_tower)         \
  MODEL(multi_tower_din)     \
  MODEL(mask_net)            \
  MODEL(wide_and_deep)       \
  MODEL(dcn_v1)              \
  MODEL(dcn_v2)              \
  MODEL(xdeepfm)             \
  MODEL(wukong)              \
  MODEL(mmoe)                \
  MODEL(dbmtl)               \
  MODEL(ple)                 \
  MODEL(pepnet)              \
  MODEL(dssm)                \
  MODEL(dssm_v2)             \
  MODEL(dat)                 \
  MODEL(mind)                \
  MODEL(tdm)                 \
  MODEL(rocket_launching)    \
  MODEL(lr)                  \
  MODEL(fm)                  \
  MODEL(dnn)

#define EMBLEM_MODEL_DECLARED(name) ModelKind name##_model();
#define EMBLEM_MODEL_LISTED(name) name##_model(),

EMBLEM_MODELS(EMBLEM_MODEL_DECLARED)

namespace {

using config::ModelConfig;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::span<const ModelKind> all_models() {
  static const ModelKind kModels[] = {EMBLEM_MODELS(EMBLEM_MODEL_LISTED)};
  return kModels;
}

const ModelKind* find_kind(const std::string& name) {
  for (const ModelKind& kind : all_models())
    if (kind.name == name) return &kind;
  return nullptr;
}

// The settings of the model that have this field; null where it has none.
const FieldDescriptor* field_of_model(const ModelConfig& model, const char* name) {
  const auto* chosen = model.GetDescriptor()->FindFieldByNumber(model.model_case());
  return chosen == nullptr ? nullptr : chosen->message_type()->FindFieldByName(name);
}

const Message& settings_of_model(const ModelConfig& model) {
  return model.GetReflection()->GetMessage(
      model, model.GetDescriptor()->FindFieldByNumber(model.model_case()));
}

}  // namespace

const ModelKind* find_model(const ModelConfig& model) { return find_kind(model_name(model)); }

std::vector<std::string> supported_models() {
  const auto* models = ModelConfig::descriptor()->FindOneofByName("model");
  std::vector<std::string> names;
  for (int i = 0; i < models->field_count(); ++i)
    if (find_kind(models->field(i)->name()) != nullptr) names.push_back(models->field(i)->name());
  return names;
}

std::vector<Head> build_model(Graph& graph, ModelInputs& inputs) {
  const ModelConfig& model = inputs.config().model_config();
  const ModelKind* kind = find_model(model);
  EMBLEM_REQUIRE(kind != nullptr, "model \"", model_name(model), "\" is not supported; set one of ",
                 joined(supported_models()));
  const std::vector<HeadSpec> specs = heads_of(inputs.config(), inputs.layout());
  std::vector<HeadLogits> of_heads(specs.size());  // of each head, by the models of an ensemble
  const int64_t members = model.ensemble_size();
  EMBLEM_REQUIRE(members > 0, "model_config.ensemble_size is 0, expected at least 1");
  for (int64_t member = 1; member <= members; ++member) {
    if (members > 1) graph.set_scope_prefix(cat("member_", member, "."));
    HeadLogits logits = kind->build != nullptr
                            ? HeadLogits{{kind->build(graph, inputs, specs.at(0).classes)}}
                            : kind->build_heads(graph, inputs, specs);
    EMBLEM_REQUIRE(logits.size() == specs.size(), "the model has ", logits.size(), " towers, but ",
                   specs.size(), " heads");
    for (size_t i = 0; i < specs.size(); ++i) of_heads[i].push_back(std::move(logits[i]));
  }
  graph.set_scope_prefix("");
  std::vector<Head> heads;
  for (size_t i = 0; i < specs.size(); ++i)
    heads.push_back(make_head(graph, inputs, specs[i], of_heads[i]));
  return heads;
}

int64_t wide_dim_of(const ModelConfig& model) {
  const FieldDescriptor* field = field_of_model(model, "wide_embedding_dim");
  if (field == nullptr) return 1;
  const Message& settings = settings_of_model(model);
  return settings.GetReflection()->GetUInt32(settings, field);
}

std::string wide_init_of(const ModelConfig& model) {
  const FieldDescriptor* field = field_of_model(model, "wide_init_fn");
  if (field == nullptr) return "";
  const Message& settings = settings_of_model(model);
  return settings.GetReflection()->GetString(settings, field);
}

std::string model_name(const ModelConfig& model) {
  const auto* field = model.GetDescriptor()->FindFieldByNumber(model.model_case());
  return field ? field->name() : "none";
}

void require_one_class(int64_t classes, const char* model) {
  EMBLEM_REQUIRE(classes == 1, "model_config.num_class is ", classes, ", but ", model,
                 " gives one number; set num_class: 1");
}

}  // namespace emblem
