#include "model/lookup/table_config.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <map>

#include "config/feature/feature_settings.h"
#include "core/math/hash.h"
#include "core/text/text.h"
#include "emblem/error.h"
#include "model/lookup/table_placement.h"
#include "model/models.h"
#include "optim/from_config.h"

namespace emblem {
namespace {

using config::DynamicEmbedding;
using config::DynamicEmbInitializerArgs;
using Kind = Initializer::Kind;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return text;
}

// TorchRec's default: uniform within 1 / sqrt(rows).
Initializer default_initializer(int64_t rows) {
  const float bound = 1.0f / std::sqrt(static_cast<float>(std::max<int64_t>(rows, 1)));
  return {Kind::kUniform, -bound, bound};
}

// As TorchEasyRec: what is not set follows from the rows and the width of the table.
Initializer from_args(const DynamicEmbInitializerArgs& args, const char* default_mode,
                      const Initializer& uniform, int64_t dim, const std::string& where) {
  const std::string mode = args.has_mode() ? lower(args.mode()) : default_mode;
  if (mode == "uniform")
    return {Kind::kUniform, args.has_lower() ? args.lower() : uniform.a,
            args.has_upper() ? args.upper() : uniform.b};
  const float deviation = args.has_std_dev()
                              ? args.std_dev()
                              : 1.0f / std::sqrt(static_cast<float>(std::max<int64_t>(dim, 1)));
  if (mode == "normal") return {Kind::kNormal, args.mean(), deviation};
  if (mode == "truncated_normal") return {Kind::kTruncatedNormal, args.mean(), deviation};
  if (mode == "constant") return {Kind::kConstant, args.value(), 0.0f};
  throw Error(ErrorCode::kInvalidArgument,
              cat(where, ": initializer mode \"", args.mode(),
                  "\" is unknown; use uniform, normal, truncated_normal or constant"));
}

Eviction eviction_from(const std::string& strategy, const std::string& where) {
  const std::string name = lower(strategy);
  if (name == "timestamp" || name == "lru") return Eviction::kLru;
  if (name == "lfu") return Eviction::kLfu;
  if (name == "step") return Eviction::kStep;
  if (name == "customized" || name == "custom") return Eviction::kCustom;
  if (name == "no_eviction" || name == "none") return Eviction::kNone;
  throw Error(ErrorCode::kInvalidArgument,
              cat(where, ": score_strategy \"", strategy,
                  "\" is unknown; use TIMESTAMP, LFU, STEP, CUSTOMIZED or NO_EVICTION"));
}

DType dtype_from(const std::string& name, const std::string& where) {
  const std::string type = lower(name);
  if (type == "fp32") return DType::kF32;
  if (type == "fp16") return DType::kF16;
  if (type == "bf16") return DType::kBf16;
  throw Error(ErrorCode::kInvalidArgument,
              cat(where, ": data_type \"", name, "\" is unknown; use FP32, FP16 or BF16"));
}

Pooling pooling_from(const std::string& name, const std::string& where) {
  if (lower(name) == "sum") return Pooling::kSum;
  if (lower(name) == "mean") return Pooling::kMean;
  throw Error(ErrorCode::kInvalidArgument,
              cat(where, ": pooling \"", name, "\" is unknown; use sum or mean"));
}

void set_dynamic(TableSettings& table, const DynamicEmbedding& dynamic, int64_t dim,
                 const std::string& where) {
  table.kind = TableKind::kDynamic;
  table.eviction = eviction_from(dynamic.score_strategy(), where);
  table.capacity =
      table.eviction == Eviction::kNone ? 0 : static_cast<int64_t>(dynamic.max_capacity());
  table.initial_capacity = static_cast<int64_t>(dynamic.init_capacity_per_rank());
  const Initializer uniform =
      default_initializer(dynamic.has_max_capacity() ? dynamic.max_capacity() : 10000);
  table.initializer = from_args(dynamic.initializer_args(), "uniform", uniform, dim, where);
  table.missing = from_args(dynamic.eval_initializer_args(), "constant", uniform, dim, where);
  if (dynamic.has_frequency_admission_strategy()) {
    const auto& admission = dynamic.frequency_admission_strategy();
    table.admission_threshold = static_cast<int64_t>(admission.threshold());
    table.admission_capacity = static_cast<int64_t>(admission.counter_capacity());
  }
}

// zch: ids are hashed to 63 bits, and the table keeps zch_size of them.
void set_collision_free(TableSettings& table, const config::ZeroCollisionHash& zch) {
  table.kind = TableKind::kDynamic;
  table.eviction = zch.has_lru() ? Eviction::kLru : Eviction::kLfu;
  table.capacity = static_cast<int64_t>(zch.zch_size());
  table.initializer = default_initializer(table.capacity);
}

// The table of a feature, but for its name and optimizer.
TableSettings table_of(const FeatureSpec& feature) {
  const FeatureSettings& settings = feature.settings;
  const std::string where = "feature " + feature.name;
  TableSettings table;
  table.dtype = dtype_from(settings.data_type, where);
  table.trainable = settings.trainable;
  if (settings.dynamicemb) {
    set_dynamic(table, *settings.dynamicemb, settings.embedding_dim, where);
  } else if (settings.zch) {
    set_collision_free(table, *settings.zch);
  } else {
    table.capacity = table_rows(feature);
    table.initializer = default_initializer(table.capacity);
  }
  if (!settings.init_fn.empty()) table.initializer = parse_init_fn(settings.init_fn);
  return table;
}

Pooling pooling_of(const FeatureSpec& feature) {
  return pooling_from(feature.settings.pooling, "feature " + feature.name);
}

// Bags of one value are the same whether summed or averaged.
bool has_bags(const FeatureSpec& feature) {
  return value_dim_of(feature.settings, feature.settings.in_sequence) != 1;
}

// All features of a stacked lookup are pooled in one way.
Pooling stacked_pooling(const LookupGroup& lookup) {
  const GroupedFeature* first = nullptr;
  Pooling pooling = Pooling::kSum;
  for (const GroupedFeature& each : lookup.features) {
    if (!has_bags(*each.feature)) continue;
    const Pooling own = pooling_of(*each.feature);
    EMBLEM_REQUIRE(first == nullptr || own == pooling, "features ", first->feature->name, " and ",
                   each.feature->name, " share the table \"", each.table,
                   "\" as query and as sequence, but are pooled in different ways; give them the "
                   "same pooling or another embedding_name");
    if (first == nullptr) first = &each;
    pooling = own;
  }
  return pooling;
}

void require_same(const TableSettings& a, const TableSettings& b, const std::string& feature) {
  const auto differ = [&](const char* setting, const auto& x, const auto& y) {
    EMBLEM_REQUIRE(x == y, "feature ", feature, " shares the table \"", a.name, "\", but its ",
                   setting, " is ", y, " where the table's is ", x,
                   "; give them the same or another embedding_name");
  };
  differ("embedding_dim", a.dim, b.dim);
  differ("size", a.capacity, b.capacity);
  differ("kind", static_cast<int>(a.kind), static_cast<int>(b.kind));
  differ("data_type", std::string(name_of(a.dtype)), std::string(name_of(b.dtype)));
}

}  // namespace

Initializer parse_init_fn(const std::string& text) {
  const auto parts = split(text, ',');
  std::map<std::string, float> arguments;
  for (size_t i = 1; i < parts.size(); ++i) {
    const auto pair = split(parts[i], '=');
    EMBLEM_REQUIRE(pair.size() == 2, "init_fn \"", text, "\": \"", parts[i],
                   "\" is not NAME=VALUE");
    char* end = nullptr;
    const float number = std::strtof(pair[1].c_str(), &end);
    EMBLEM_REQUIRE(end != pair[1].c_str() && trim(end).empty() && std::isfinite(number),
                   "init_fn \"", text, "\": \"", pair[1], "\" is not a number");
    arguments[std::string(trim(pair[0]))] = number;
  }
  const auto value = [&](const char* name, float fallback) {
    const auto found = arguments.extract(name);
    return found.empty() ? fallback : found.mapped();
  };
  const auto made = [&](Initializer initializer) {
    EMBLEM_REQUIRE(arguments.empty(), "init_fn \"", text, "\" has no argument \"",
                   arguments.begin()->first, "\"");
    return initializer;
  };
  const std::string function = lower(std::string(trim(parts[0])));
  const auto ends_with = [&](std::string_view name) {
    return function == name || function == "nn.init." + std::string(name) + "_";
  };
  if (ends_with("uniform")) return made({Kind::kUniform, value("a", 0.0f), value("b", 1.0f)});
  if (ends_with("normal")) return made({Kind::kNormal, value("mean", 0.0f), value("std", 1.0f)});
  if (ends_with("trunc_normal"))
    return made({Kind::kTruncatedNormal, value("mean", 0.0f), value("std", 1.0f)});
  if (ends_with("constant")) return made({Kind::kConstant, value("val", 0.0f), 0.0f});
  if (ends_with("zeros")) return made({Kind::kConstant, 0.0f, 0.0f});
  throw Error(ErrorCode::kInvalidArgument,
              cat("init_fn \"", text,
                  "\" is unknown; use nn.init.uniform_,a=,b= | nn.init.normal_,mean=,std= | "
                  "nn.init.trunc_normal_,mean=,std= | nn.init.constant_,val= | nn.init.zeros_"));
}

LookupTables tables_of_lookup(const config::PipelineConfig& config, const LookupGroup& lookup,
                              ModelUse use) {
  const auto& train = config.train_config();
  const SparseOptimizerSettings optimizer = sparse_optimizer_from(train.sparse_optimizer());
  LookupTables made;
  made.lookup.sums = train.deterministic() ? Sums::kDeterministic : Sums::kFast;
  std::map<std::string, int64_t> by_name;
  for (const GroupedFeature& each : lookup.features) {
    TableSettings settings = table_of(*each.feature);
    settings.name = each.table;
    settings.dim = each.dim;
    if (lookup.family == TableFamily::kWide) {
      const std::string init = wide_init_of(config.model_config());
      settings.initializer =
          init.empty() ? Initializer{Kind::kConstant, 0.0f, 0.0f} : parse_init_fn(init);
    }
    settings.rule = optimizer.rule;
    if (use == ModelUse::kEvaluation) {
      settings.rule = Sgd{};  // without state
      settings.eviction = Eviction::kNone;
      settings.admission_threshold = 0;
    }
    settings.initial_accumulator = optimizer.initial_accumulator;
    if (train.stochastic_rounding() && settings.dtype != DType::kF32)
      settings.rounding = Rounding::kStochastic;
    settings.l2 = optimizer.l2 + train.regularization().embedding_l2();
    settings.l2_on_all_rows = train.regularization().embedding_l2_on_all_rows();
    settings.seed = train.seed() ^ hash_string(settings.name);

    const auto [at, inserted] =
        by_name.try_emplace(settings.name, static_cast<int64_t>(made.tables.size()));
    if (inserted)
      made.tables.push_back(settings);
    else
      require_same(made.tables[at->second], settings, each.feature->name);
    if (lookup.is_stacked && !made.uses.empty()) continue;
    made.uses.push_back({each.feature->sparse_index, at->second,
                         lookup.is_stacked ? stacked_pooling(lookup) : pooling_of(*each.feature)});
  }
  if (train.device_bytes() > 0)
    place_tables(made.tables, static_cast<int64_t>(train.device_bytes()));
  return made;
}

}  // namespace emblem
