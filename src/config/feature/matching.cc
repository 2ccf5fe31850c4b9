#include "config/feature/matching.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>

#include "emblem/error.h"

namespace emblem {
namespace {

MatchingTower matching_tower_of(const config::Tower& tower) {
  return {{tower.input()}, tower.mlp()};
}

MatchingTower matching_tower_of(const config::DATTower& tower) {
  return {{tower.input(), tower.augment_input()}, tower.mlp()};
}

MatchingTower matching_tower_of(const config::MINDUserTower& tower) {
  return {{tower.input(), tower.history_input()}, tower.concat_mlp(), "concat_mlp"};
}

// Calls body with the message of a model that matches.
template <class Body>
void change_matching_model(config::ModelConfig* model, const Body& body) {
  if (model->has_dssm()) body(*model->mutable_dssm());
  if (model->has_dssm_v2()) body(*model->mutable_dssm_v2());
  if (model->has_dat()) body(*model->mutable_dat());
  if (model->has_mind()) body(*model->mutable_mind());
}

template <class Model>
MatchingSpec matching_spec_of(const Model& model) {
  MatchingSpec spec;
  spec.user = matching_tower_of(model.user_tower());
  spec.item = matching_tower_of(model.item_tower());
  spec.has_item_tower = model.has_item_tower();
  spec.output_dim = model.output_dim();
  spec.similarity = model.similarity();
  spec.temperature = model.temperature();
  spec.in_batch_negative = model.in_batch_negative();
  spec.masks_equal_items = model.mask_equal_items();
  spec.corrects_scores = model.has_logq_correction();
  spec.frequency_path = model.logq_correction().input_path();
  spec.item_id_feature = model.item_id_feature();
  return spec;
}

}  // namespace

int64_t MatchingSpec::vector_dim() const {
  if (output_dim > 0) return output_dim;
  const int layers = user.mlp.hidden_units_size();
  return layers == 0 ? 0 : user.mlp.hidden_units(layers - 1);
}

std::optional<MatchingSpec> matching_of(const config::ModelConfig& model) {
  if (model.has_dssm()) return matching_spec_of(model.dssm());
  if (model.has_dat()) return matching_spec_of(model.dat());
  if (model.has_dssm_v2()) {
    MatchingSpec spec = matching_spec_of(model.dssm_v2());
    spec.shares_tables = true;
    return spec;
  }
  if (!model.has_mind()) return std::nullopt;
  MatchingSpec spec = matching_spec_of(model.mind());
  spec.vectors = model.mind().user_tower().capsule_config().max_k();
  return spec;
}

std::string matching_name(const config::ModelConfig& model) {
  const auto* field = model.GetDescriptor()->FindFieldByNumber(model.model_case());
  return field == nullptr ? "a model without a name" : field->name();
}

config::LogQCorrection* logq_correction_of(config::ModelConfig* model) {
  config::LogQCorrection* found = nullptr;
  change_matching_model(model, [&](auto& matching) {
    if (matching.has_logq_correction()) found = matching.mutable_logq_correction();
  });
  return found;
}

void set_in_batch_negative(config::ModelConfig* model) {
  change_matching_model(model, [](auto& matching) { matching.set_in_batch_negative(true); });
}

bool remove_corrections(config::ModelConfig* model) {
  const auto spec = matching_of(*model);
  change_matching_model(model, [](auto& matching) {
    matching.clear_mask_equal_items();
    matching.clear_logq_correction();
    matching.clear_item_id_feature();
  });
  return spec && (spec->masks_equal_items || spec->corrects_scores);
}

MatchingSpec require_towers(const config::ModelConfig& model, const std::string& purpose) {
  const auto spec = matching_of(model);
  const std::string name = matching_name(model);
  EMBLEM_REQUIRE(spec, purpose,
                 " needs a model with towers for users and items (dssm, dssm_v2, dat, mind), ",
                 "but this one is ", name);
  EMBLEM_REQUIRE(
      spec->has_item_tower, purpose, " needs the tower of items, which this ", name,
      " does not have: it was written with an index; use the checkpoint of its training");
  return *spec;
}

void remove_item_tower(config::ModelConfig* model) {
  const auto spec = matching_of(*model);
  if (!spec || !spec->has_item_tower) return;
  change_matching_model(model, [](auto& matching) { matching.clear_item_tower(); });
  auto* groups = model->mutable_feature_groups();
  for (int i = groups->size() - 1; i >= 0; --i) {
    const std::string& group = groups->Get(i).group_name();
    const auto is_read_by = [&](const MatchingTower& tower) {
      return std::ranges::find(tower.groups, group) != tower.groups.end();
    };
    if (is_read_by(spec->item) && !is_read_by(spec->user)) groups->DeleteSubrange(i, 1);
  }
}

}  // namespace emblem
