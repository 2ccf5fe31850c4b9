#include "data/synth/pipeline_schema.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "config/feature/items.h"
#include "config/feature/sequences.h"
#include "config/feature/tree_items.h"
#include "core/math/hash.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Hashed ids are fewer than the buckets, as tables are made for few collisions.
constexpr int64_t kBucketsPerId = 5;
constexpr int64_t kIdsWithoutTable = 1000;  // ids of columns that only combinations read
constexpr int64_t kLengthWithoutLimit = 20;
constexpr size_t kMostWords = 10000;

class SchemaBuilder {
 public:
  SchemaBuilder(const config::PipelineConfig& config, int64_t divisor)
      : config_(config),
        layout_(layout_of_rows(layout_of(config))),
        divisor_(std::max<int64_t>(1, divisor)) {}

  PipelineSchema build() {
    schema_.delimiter = config_.data_config().delimiter();
    for (const SequenceSpec& sequence : layout_.sequences)
      schema_.sequence_lengths.push_back(sequence.max_length > 0 ? sequence.max_length
                                                                 : kLengthWithoutLimit);
    find_queries();
    // Columns of ids and numbers first: maps are written for their ids.
    for (const FeatureSpec& feature : layout_.features)
      if (is_plain(feature) || is_encoded()) add_plain(feature);
    for (const FeatureSpec& feature : layout_.features)
      if (!is_plain(feature) && !is_encoded()) add_computed(feature);
    link_queries();
    add_labels();
    add_items();
    return std::move(schema_);
  }

 private:
  static bool is_plain(const FeatureSpec& feature) {
    return feature.settings.type == FeatureType::kId || feature.settings.type == FeatureType::kRaw;
  }
  // Columns have the final values of features.
  bool is_encoded() const { return layout_.semantics.fg_mode == config::FG_NONE; }

  // Which feature of a row the elements of a sequence are compared with: that of the same name or
  // the same table in a group with it, or of the same name anywhere.
  void find_queries() {
    for (const SequenceGroup& group : sequence_groups_of(config_.model_config())) {
      for (const std::string& name : group.features) {
        const FeatureSpec& feature = layout_.find(name);
        if (feature.sequence < 0 || feature.kind != FeatureKind::kSparse) continue;
        for (const std::string& other : group.features) {
          const FeatureSpec& query = layout_.find(other);
          if (query.sequence < 0 && queries_.count(name) == 0 && is_query_of(query, feature))
            queries_[name] = other;
        }
      }
    }
    for (const FeatureSpec& feature : layout_.features) {
      if (feature.sequence < 0 || feature.kind != FeatureKind::kSparse) continue;
      for (const FeatureSpec& query : layout_.features)
        if (query.sequence < 0 && has_name_of(query, feature))
          queries_.emplace(feature.name, query.name);
    }
  }
  static bool has_name_of(const FeatureSpec& query, const FeatureSpec& feature) {
    return query.kind == FeatureKind::kSparse && feature.name.ends_with("__" + query.name);
  }
  static bool is_query_of(const FeatureSpec& query, const FeatureSpec& feature) {
    if (query.kind != FeatureKind::kSparse) return false;
    return has_name_of(query, feature) ||
           table_name_of(query.config) == table_name_of(feature.config) ||
           (query.rows > 0 && query.rows == feature.rows);
  }

  std::optional<size_t> column_index(const std::string& name) const {
    for (size_t i = 0; i < schema_.columns.size(); ++i)
      if (schema_.columns[i].name == name) return i;
    return std::nullopt;
  }

  bool is_declared_integer(const std::string& column) const {
    for (const config::Field& field : config_.data_config().input_fields())
      if (field.input_name() == column &&
          (field.input_type() == config::INT32 || field.input_type() == config::INT64))
        return true;
    return false;
  }

  int64_t divided(int64_t values) const {
    return values <= 2 ? std::max<int64_t>(1, values) : std::max<int64_t>(2, values / divisor_);
  }

  // The ids of a categorical feature whose column holds them.
  PipelineDomain domain_of(const FeatureSpec& feature) const {
    const FeatureSettings& settings = feature.settings;
    PipelineDomain domain;
    const int64_t rows = settings.dynamicemb
                             ? static_cast<int64_t>(settings.dynamicemb->max_capacity())
                             : feature.rows;
    if (is_encoded() || settings.num_buckets) {
      domain.values = divided(rows > 0 ? rows : kIdsWithoutTable);
      return domain;
    }
    if (!settings.vocab_list.empty() || !settings.vocab_dict.empty() ||
        !settings.vocab_file.empty()) {
      domain.form = PipelineDomain::Form::kWord;
      for (const auto& [word, row] : vocabulary_of(settings, feature.sequence >= 0).rows_of_words)
        if (!word.empty() && domain.words.size() < kMostWords) domain.words.push_back(word);
      domain.values = static_cast<int64_t>(domain.words.size());
      return domain;
    }
    domain.values = divided(settings.hash_bucket_size ? rows / kBucketsPerId : rows);
    domain.values = std::max<int64_t>(2, domain.values);
    if (is_declared_integer(feature.column)) return domain;
    domain.form = PipelineDomain::Form::kText;
    if (settings.hash_bucket_size && domain.values <= std::min<int64_t>(rows, kMostWords)) {
      domain.form = PipelineDomain::Form::kWord;
      domain.words = words_in_different_buckets(domain.values, rows);
    }
    return domain;
  }

  // A table of few rows would lose much of the truth by collisions. Also apart in the divided table
  // where that is large enough.
  std::vector<std::string> words_in_different_buckets(int64_t count, int64_t rows) const {
    const int64_t fewer_rows = rows / divisor_;
    std::set<uint64_t> buckets, buckets_when_divided;
    std::vector<std::string> words;
    for (int64_t i = 0; static_cast<int64_t>(words.size()) < count; ++i) {
      const std::string word = cat("v", i);
      const uint64_t hash = fg_hash(word);
      const auto bucket = hash % static_cast<uint64_t>(rows);
      if (buckets.contains(bucket)) continue;
      if (fewer_rows >= count &&
          !buckets_when_divided.insert(hash % static_cast<uint64_t>(fewer_rows)).second)
        continue;
      buckets.insert(bucket);
      words.push_back(word);
    }
    return words;
  }

  size_t add_domain(const PipelineDomain& domain) {
    schema_.domains.push_back(domain);
    return schema_.domains.size() - 1;
  }

  PipelineColumn column_for(const FeatureSpec& feature, const FeatureInput& input) const {
    PipelineColumn column;
    column.name = input.name;
    const bool in_sequence = input.is_sequence || (is_encoded() && feature.sequence >= 0);
    if (in_sequence) {
      column.sequence = feature.sequence;
      column.sequence_delim = feature.sequence_delim;
    }
    column.separator =
        is_encoded() ? config_.data_config().fg_encoded_multival_sep() : feature.settings.separator;
    return column;
  }

  // Features that are what their column holds.
  void add_plain(const FeatureSpec& feature) {
    for (const FeatureInput& input : feature.inputs) {
      if (input.source != FeatureInput::Source::kColumn || column_index(input.name)) continue;
      PipelineColumn column = column_for(feature, input);
      if (feature.settings.type == FeatureType::kRaw && !is_encoded()) {
        set_numbers(feature, column);
      } else if (feature.kind == FeatureKind::kDense) {
        column.form = PipelineColumn::Form::kNumbers;
        column.least_values = column.most_values =
            value_dim_of(feature.settings, feature.sequence >= 0);
      } else {
        column.is_weighted = feature.settings.weighted;
        if (column.sequence < 0 && (column.is_weighted || feature.settings.value_dim == 0u))
          column.most_values = 3;
        const auto query = queries_.find(feature.name);
        const auto shared = query == queries_.end() ? domains_.end() : domains_.find(query->second);
        column.domain = shared != domains_.end() ? shared->second : add_domain(domain_of(feature));
      }
      if (column.form == PipelineColumn::Form::kIds) domains_.emplace(feature.name, column.domain);
      columns_of_features_[feature.name] = schema_.columns.size();
      schema_.columns.push_back(std::move(column));
    }
  }

  void set_numbers(const FeatureSpec& feature, PipelineColumn& column) const {
    column.form = PipelineColumn::Form::kNumbers;
    const FeatureSettings& settings = feature.settings;
    const int64_t dim = std::max<int64_t>(1, value_dim_of(settings, feature.sequence >= 0));
    column.least_values = column.most_values = column.sequence < 0 ? dim : 1;
    column.are_counts = settings.normalizer.find("log") != std::string::npos;
    column.boundaries = settings.boundaries;
    if (!column.boundaries.empty()) column.are_counts = false;
    column.are_dates = settings.date_part != config::NO_DATE;
    // A point would part groups of digits.
    if (settings.number_format == config::POINT_GROUPS) column.are_counts = true;
  }

  // A column of ids that only computed features read; its index.
  size_t ids(const FeatureSpec& feature, size_t at, int64_t most_values) {
    const FeatureInput& input = feature.inputs[at];
    if (const auto known = column_index(input.name)) return *known;
    PipelineColumn column = column_for(feature, input);
    column.domain = add_domain({divided(kIdsWithoutTable), is_declared_integer(input.name)
                                                               ? PipelineDomain::Form::kInteger
                                                               : PipelineDomain::Form::kText});
    column.most_values = column.sequence < 0 ? most_values : 1;
    schema_.columns.push_back(std::move(column));
    return schema_.columns.size() - 1;
  }

  void add_column(PipelineColumn column) {
    if (!column_index(column.name)) schema_.columns.push_back(std::move(column));
  }

  static bool is_column(const FeatureSpec& feature, size_t at) {
    return feature.inputs[at].source == FeatureInput::Source::kColumn;
  }

  void add_computed(const FeatureSpec& feature) {
    switch (feature.settings.type) {
      case FeatureType::kLookup:
        return add_map(feature, PipelineColumn::Form::kMap);
      case FeatureType::kMatch:
        return add_map(feature, PipelineColumn::Form::kNestedMap);
      case FeatureType::kExpr:
        return add_numbers(feature);
      case FeatureType::kCombine:
        return add_combined(feature);
      case FeatureType::kTokenize:
        return add_form(feature, 0, PipelineColumn::Form::kPhrase);
      case FeatureType::kBoolMask:
        return add_masked(feature);
      case FeatureType::kCustom:
        throw Error(ErrorCode::kUnsupported,
                    cat("feature \"", feature.name, "\": custom_feature has no known inputs"));
      default:
        break;
    }
    // Combinations, overlaps and products of weights: lists of ids with the same domain, so that
    // they have some in common.
    const bool are_lists = feature.settings.type != FeatureType::kCombo;
    for (size_t i = 0; i < feature.inputs.size(); ++i) {
      if (!is_column(feature, i)) continue;
      const bool is_new = !column_index(feature.inputs[i].name);
      const size_t column = ids(feature, i, are_lists ? 6 : 1);
      if (are_lists && is_new && i > 0 && is_column(feature, 0))
        schema_.columns[column].domain =
            schema_.columns[*column_index(feature.inputs[0].name)].domain;
      if (are_lists && is_new) schema_.domains[schema_.columns[column].domain].values = 20;
      if (feature.settings.type == FeatureType::kKvDotProduct && is_new)
        schema_.columns[column].is_weighted = true;
    }
  }

  void add_form(const FeatureSpec& feature, size_t at, PipelineColumn::Form form) {
    if (!is_column(feature, at)) return;
    PipelineColumn column = column_for(feature, feature.inputs[at]);
    column.form = form;
    add_column(std::move(column));
  }

  void add_numbers(const FeatureSpec& feature) {
    for (size_t i = 0; i < feature.inputs.size(); ++i) {
      if (!is_column(feature, i)) continue;
      PipelineColumn column = column_for(feature, feature.inputs[i]);
      column.form = PipelineColumn::Form::kNumbers;
      column.low = 0;
      column.high = 10;
      add_column(std::move(column));
    }
  }

  void add_combined(const FeatureSpec& feature) {
    const auto& words = feature.config.combine_feature().value_map();
    if (!is_column(feature, 0) || column_index(feature.inputs[0].name)) return;
    PipelineColumn column = column_for(feature, feature.inputs[0]);
    column.most_values = column.sequence < 0 ? 2 : 1;
    if (words.empty()) {
      column.form = PipelineColumn::Form::kNumbers;
      column.low = 0;
      column.high = 4;
    } else {
      PipelineDomain domain;
      domain.form = PipelineDomain::Form::kWord;
      for (const auto& [word, number] : words) domain.words.push_back(word);
      std::sort(domain.words.begin(), domain.words.end());
      domain.values = static_cast<int64_t>(domain.words.size());
      column.domain = add_domain(domain);
    }
    schema_.columns.push_back(std::move(column));
  }

  void add_masked(const FeatureSpec& feature) {
    if (is_column(feature, 0) && !column_index(feature.inputs[0].name)) {
      PipelineColumn column = column_for(feature, feature.inputs[0]);
      column.domain = add_domain(domain_of(feature));
      column.least_values = column.most_values = column.sequence < 0 ? 4 : 1;
      schema_.columns.push_back(std::move(column));
    }
    if (!is_column(feature, 1)) return;
    PipelineColumn mask = column_for(feature, feature.inputs[1]);
    mask.form = PipelineColumn::Form::kMask;
    mask.least_values = mask.most_values = mask.sequence < 0 ? 4 : 1;
    add_column(std::move(mask));
  }

  void add_map(const FeatureSpec& feature, PipelineColumn::Form form) {
    const bool is_nested = form == PipelineColumn::Form::kNestedMap;
    std::vector<size_t> keys;
    for (size_t i = 1; i < feature.inputs.size(); ++i) {
      const bool is_known = is_column(feature, i);
      if (!is_known)
        EMBLEM_REQUIRE(!keys.empty() || !schema_.columns.empty() || is_nested, "feature \"",
                       feature.name, "\" looks up a key that is not a column");
      keys.push_back(is_known ? ids(feature, i, 1) : SIZE_MAX);
    }
    if (!is_column(feature, 0) || column_index(feature.inputs[0].name)) return;
    PipelineColumn column = column_for(feature, feature.inputs[0]);
    column.form = form;
    column.separator = "\x1d";
    // A key that is ALL or another feature: any ids will do.
    if (keys[0] == SIZE_MAX) keys[0] = any_ids(feature);
    if (is_nested && keys[1] == SIZE_MAX) keys[1] = any_ids(feature);
    column.key = keys[0];
    column.domain = schema_.columns[keys[0]].domain;
    column.inner_key = is_nested ? keys[1] : keys[0];
    column.values_are_integers = feature.settings.num_buckets.has_value();
    if (feature.settings.num_buckets)
      column.value_limit = static_cast<int64_t>(*feature.settings.num_buckets);
    if (feature.settings.type == FeatureType::kLookup &&
        feature.settings.value_dim.value_or(1) > 1) {
      column.values_per_key = *feature.settings.value_dim;
      column.value_separator = feature.config.lookup_feature().value_separator();
    }
    schema_.columns.push_back(std::move(column));
  }

  // The first column of ids of rows. When there is none, one is added that no feature reads.
  size_t any_ids(const FeatureSpec& feature) {
    for (size_t i = 0; i < schema_.columns.size(); ++i)
      if (schema_.columns[i].form == PipelineColumn::Form::kIds && schema_.columns[i].sequence < 0)
        return i;
    PipelineColumn column;
    column.name = feature.name + "_keys";
    column.domain = add_domain({10, PipelineDomain::Form::kText});
    schema_.columns.push_back(std::move(column));
    return schema_.columns.size() - 1;
  }

  // Histories have the ids of what they are compared with.
  void link_queries() {
    for (const auto& [history, query] : queries_) {
      const auto from = columns_of_features_.find(history);
      const auto to = columns_of_features_.find(query);
      if (from == columns_of_features_.end() || to == columns_of_features_.end()) continue;
      PipelineColumn& column = schema_.columns[from->second];
      const PipelineColumn& other = schema_.columns[to->second];
      if (column.form != PipelineColumn::Form::kIds || other.form != PipelineColumn::Form::kIds)
        continue;
      column.domain = other.domain;
      column.query = static_cast<int64_t>(to->second);
      schema_.domains[column.domain].has_histories = true;
    }
  }

  static bool is_conversion(const std::string& name) {
    for (const char* word : {"cvr", "buy", "conv", "purchase", "pay", "order"})
      if (name.find(word) != std::string::npos) return true;
    return false;
  }

  // Its labels say how relevant rows are: numbers below 0 do not.
  static bool orders_rows(const HeadSpec& head) {
    return std::any_of(head.losses.begin(), head.losses.end(),
                       [](const config::LossConfig& loss) { return loss.has_lambdarank_loss(); });
  }

  void add_labels() {
    for (const LabelSpec& label : layout_.labels)
      schema_.labels.push_back({label.name, label.kind, label.classes});
    schema_.weight_fields = layout_.weight_fields;
    for (const HeadSpec& head : heads_of(config_, layout_)) {
      PipelineLabel& label = schema_.labels[static_cast<size_t>(head.label)];
      label.is_learned = true;
      if (orders_rows(head)) label.kind = LabelKind::kBinary;
      if (head.indicator >= 0 && head.indicator != head.label) label.parent = head.indicator;
      if (head.label > 0 && label.parent < 0 && is_conversion(label.name) &&
          schema_.labels[0].kind == LabelKind::kBinary)
        label.parent = 0;
      if (label.kind != LabelKind::kBinary) label.parent = -1;
      if (!head.in_training_only) schema_.heads.push_back(head);
    }
    // An indicator that no head learns says yes or no, too.
    for (const HeadSpec& head : schema_.heads) {
      if (head.indicator < 0) continue;
      PipelineLabel& indicator = schema_.labels[static_cast<size_t>(head.indicator)];
      if (!indicator.is_learned) indicator.kind = LabelKind::kBinary;
    }
    for (PipelineLabel& label : schema_.labels) share_column(label);
    // A label cannot wait for one that waits for it.
    for (size_t i = 0; i < schema_.labels.size(); ++i) {
      PipelineLabel& label = schema_.labels[i];
      if (label.parent >= 0 && schema_.labels[static_cast<size_t>(label.parent)].parent >= 0)
        schema_.labels[static_cast<size_t>(label.parent)].parent = -1;
    }
  }

  void add_items() {
    const auto tree = tree_sampler_of(config_.data_config());
    const auto sampler = tree ? items_of(*tree) : item_sampler_of(config_.data_config());
    if (!sampler) return;
    PipelineItems items{.sampler = *sampler, .have_tree = tree.has_value()};
    if (tree) items.sampler.attr_fields.erase(items.sampler.attr_fields.begin());  // the level
    for (const std::string& field : items.sampler.attr_fields) {
      auto at = column_index(field);
      if (!at) {  // no feature reads it
        schema_.columns.push_back({.name = field, .form = PipelineColumn::Form::kNumbers});
        at = schema_.columns.size() - 1;
      }
      const PipelineColumn::Form form = schema_.columns[*at].form;
      EMBLEM_REQUIRE(form == PipelineColumn::Form::kIds || form == PipelineColumn::Form::kNumbers,
                     sampler->name, ".attr_fields has \"", printable(field),
                     "\", whose values are written for ids and numbers only");
      if (field == sampler->item_id_field) items.id = *at;
      schema_.columns[*at].is_of_item = field != sampler->item_id_field;
      items.attributes.push_back(*at);
    }
    if (!sampler->user_id_field.empty()) {
      items.user = column_index(sampler->user_id_field);
      const bool is_id = items.user && schema_.columns[*items.user].most_values == 1 &&
                         schema_.columns[*items.user].form == PipelineColumn::Form::kIds &&
                         schema_.columns[*items.user].sequence < 0;
      EMBLEM_REQUIRE(is_id, sampler->name, ".user_id_field is \"",
                     printable(sampler->user_id_field),
                     "\", of which edges are written only where it is a column of one id");
    }
    if (tree) limit_items(tree->levels(), schema_.domains[schema_.columns[items.id].domain]);
    schema_.items = std::move(items);
  }

  // As many items as are the leaves of a tree with these levels, and have ids for its other nodes
  // besides.
  void limit_items(int64_t levels, PipelineDomain& domain) {
    const FeatureSpec& id =
        *std::ranges::find_if(layout_.features, [&](const FeatureSpec& feature) {
          return feature.kind == FeatureKind::kSparse &&
                 feature.column == config_.data_config().tdm_sampler().item_id_field();
        });
    EMBLEM_REQUIRE(levels <= 30, "synthetic items are not written for a tree of ", levels,
                   " levels, expected at most 30");
    const int64_t most = int64_t{1} << (levels - 1);
    domain.values = id.rows == 0 ? most : std::min(most, id.rows / 3);
    domain.form = PipelineDomain::Form::kInteger;
    domain.words.clear();
    EMBLEM_REQUIRE(
        2 * domain.values > most, kTreeSampler, ".layer_num_sample has ", levels,
        " numbers, but feature \"", id.name, "\" has ", id.rows,
        " buckets, which are too few for the nodes of a tree of as many levels; expected "
        "more than ",
        3 * most / 2);
  }

  // A domain that is a label and a feature: the feature's ids are those that the label can be.
  void share_column(PipelineLabel& label) {
    const auto at = column_index(label.name);
    if (!at) return;
    PipelineColumn& column = schema_.columns[*at];
    EMBLEM_REQUIRE(column.form == PipelineColumn::Form::kIds && column.sequence < 0, "the label ",
                   label.name, " is also a column of numbers or of a sequence of a feature");
    PipelineDomain& domain = schema_.domains[column.domain];
    domain.form = PipelineDomain::Form::kInteger;
    domain.words.clear();
    domain.values = std::min(domain.values, std::max<int64_t>(2, label.classes));
    column.most_values = 1;
    column.is_weighted = false;
    label.column = static_cast<int64_t>(*at);
    label.parent = -1;
  }

  const config::PipelineConfig& config_;
  FeatureLayout layout_;
  int64_t divisor_;
  PipelineSchema schema_;
  std::map<std::string, std::string> queries_;  // queries of the features of sequences
  std::map<std::string, size_t> domains_;       // by feature
  std::map<std::string, size_t> columns_of_features_;
};

}  // namespace

PipelineSchema schema_for(const config::PipelineConfig& config, int64_t divisor) {
  return SchemaBuilder(config, divisor).build();
}

}  // namespace emblem
