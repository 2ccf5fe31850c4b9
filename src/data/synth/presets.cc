#include "data/synth/presets.h"

#include <span>

#include "config/load/load.h"
#include "emblem/error.h"

namespace emblem {
namespace {

struct Ids {
  const char* name;
  int64_t buckets;
  bool is_weighted = false;
};

constexpr Ids kTaobao[] = {{"user_id", 200000},
                           {"cms_segid", 100},
                           {"gender", 4},
                           {"age_level", 8},
                           {"shopping_level", 5},
                           {"occupation", 3},
                           {"city_level", 6},
                           {"adgroup_id", 100000},
                           {"cate_id", 10000},
                           {"campaign_id", 40000},
                           {"customer", 30000},
                           {"brand", 40000},
                           {"pid", 2}};
constexpr Ids kTaobaoHistory[] = {{"adgroup_id", 100000}, {"cate_id", 10000}, {"brand", 40000}};
constexpr char kTaobaoPrice[] =
    "raw_feature { feature_name: 'price' embedding_dim: 16 "
    "boundaries: [10, 20, 30, 50, 70, 100, 150, 200, 300, 500, 1000, 2000] }";

constexpr Ids kCcp[] = {
    {"user_uid", 200000},        {"user_class1_id", 500},   {"user_class2_id", 70},
    {"user_sex_id", 15},         {"user_age_id", 40},       {"user_cost_level1", 20},
    {"user_cost_level2", 20},    {"user_iswork", 15},       {"user_loc_id", 25},
    {"item_id", 300000},         {"item_shopid", 100000},   {"item_brandid", 50000},
    {"item_cateid", 10000},      {"c_context", 5},          {"user_shop", 100000, true},
    {"user_brand", 50000, true}, {"user_cate", 10000, true}};
constexpr const char* kCcpScores[] = {"cross_shopid_score", "cross_brand_score",
                                      "cross_cateid_score"};

constexpr const char* kCensus[] = {"age",
                                   "class_of_worker",
                                   "industry",
                                   "occupation",
                                   "education",
                                   "enrolled",
                                   "major_industry",
                                   "major_occupation",
                                   "race",
                                   "hispanic_origin",
                                   "sex",
                                   "union_member",
                                   "employment",
                                   "tax_filer",
                                   "region",
                                   "state",
                                   "parents",
                                   "unemployment_reason",
                                   "household_detail",
                                   "household_summary",
                                   "same_house",
                                   "migration_msa",
                                   "migration_region",
                                   "migration_within",
                                   "citizenship",
                                   "migration_sunbelt",
                                   "employer_size",
                                   "country_father",
                                   "country_mother",
                                   "country_self",
                                   "own_business",
                                   "veterans_questionnaire",
                                   "veterans_benefits",
                                   "weeks_worked",
                                   "year"};
struct Amounts {
  const char* name;
  int64_t most;
};
constexpr Amounts kCensusAmounts[] = {{"wage_per_hour", 2000},
                                      {"capital_gains", 15000},
                                      {"capital_losses", 2500},
                                      {"dividends", 4000}};
constexpr int64_t kCensusBuckets = 100;

std::string id_feature(const Ids& ids) {
  return cat("id_feature { feature_name: '", ids.name,
             "' embedding_dim: 16 hash_bucket_size: ", ids.buckets,
             ids.is_weighted ? " weighted: true" : "", " }");
}

std::string group_of(const std::vector<std::string>& names, const std::string& rest) {
  std::string text = "feature_groups { group_name: 'all' ";
  for (const std::string& name : names) text += "feature_names: '" + name + "' ";
  return text + rest + " } ";
}

std::string tower(const std::string& name, const std::string& label) {
  return "task_towers { tower_name: '" + name + "' label_name: '" + label +
         "' mlp { hidden_units: 64 } losses { binary_cross_entropy {} } metrics { auc {} } } ";
}

std::string pipeline(const std::vector<std::string>& features, const std::string& groups,
                     const std::pair<std::string, std::string> (&towers)[2]) {
  std::string text = "data_config { with_header: true fg_mode: FG_DAG label_fields: '" +
                     towers[0].second + "' label_fields: '" + towers[1].second + "' } ";
  for (const std::string& feature : features) text += "feature_configs { " + feature + " } ";
  text += "model_config { " + groups + "mmoe { expert_mlp { hidden_units: 64 } num_expert: 2 ";
  for (const auto& [name, label] : towers) text += tower(name, label);
  return text + "} }";
}

std::string taobao() {
  std::vector<std::string> features, names;
  for (const Ids& ids : kTaobao) {
    features.push_back(id_feature(ids));
    names.emplace_back(ids.name);
  }
  features.emplace_back(kTaobaoPrice);
  names.emplace_back("price");
  std::string history =
      "sequence_feature { sequence_name: 'click_seq' sequence_length: 50 sequence_delim: '|' ";
  std::string group = "sequence_groups { group_name: 'click_seq' ";
  for (const Ids& ids : kTaobaoHistory) {
    history += "features { " + id_feature(ids) + " } ";
    group += cat("feature_names: '", ids.name, "' feature_names: 'click_seq__", ids.name, "' ");
  }
  features.push_back(history + "}");
  return pipeline(
      features,
      group_of(names,
               group + "} sequence_encoders { din_encoder { attn_mlp { hidden_units: 32 } } }"),
      {{"ctr", "clk"}, {"cvr", "buy"}});
}

std::string ccp() {
  std::vector<std::string> features, names;
  for (const Ids& ids : kCcp) {
    features.push_back(id_feature(ids));
    names.emplace_back(ids.name);
  }
  for (const char* score : kCcpScores) {
    features.push_back(cat("raw_feature { feature_name: '", score, "' }"));
    names.emplace_back(score);
  }
  return pipeline(features, group_of(names, ""), {{"ctr", "clk"}, {"cvr", "buy"}});
}

std::string census() {
  std::vector<std::string> features, names;
  for (const char* name : kCensus) {
    features.push_back(id_feature({name, kCensusBuckets}));
    names.emplace_back(name);
  }
  for (const Amounts& amounts : kCensusAmounts) {
    features.push_back(cat("raw_feature { feature_name: '", amounts.name,
                           "' embedding_dim: 16 boundaries: [0, ", amounts.most / 4, ", ",
                           amounts.most / 2, ", ", amounts.most, "] }"));
    names.emplace_back(amounts.name);
  }
  return pipeline(features, group_of(names, ""),
                  {{"income", "income"}, {"married", "never_married"}});
}

struct Preset {
  const char* name;
  std::string (*text)();
};
constexpr Preset kPresets[] = {{"taobao", taobao}, {"ccp", ccp}, {"census", census}};

}  // namespace

config::PipelineConfig preset_pipeline(const std::string& name) {
  std::string list = "criteo";
  for (const Preset& preset : kPresets) {
    if (name == preset.name) return parse_pipeline(preset.text(), "preset " + name);
    list += ", " + std::string(preset.name);
  }
  throw Error(ErrorCode::kInvalidArgument,
              cat("unknown preset '", name, "'; expected one of ", list, ", retrieval"));
}

}  // namespace emblem
