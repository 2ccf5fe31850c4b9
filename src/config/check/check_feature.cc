#include "config/check/check_feature.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "config/load/name.h"
#include "core/text/joined.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

bool is_one_of(std::string_view value, std::initializer_list<std::string_view> choices) {
  return std::find(choices.begin(), choices.end(), value) != choices.end();
}

constexpr uint64_t kMostBuckets = std::numeric_limits<int64_t>::max();

// What a table that creates and evicts rows at any step can do.
void check_zch(const std::string& name, const config::ZeroCollisionHash& zch) {
  EMBLEM_REQUIRE(zch.zch_size() > 0, "feature \"", name, "\": zch.zch_size is ", zch.zch_size(),
                 ", expected at least 1");
  EMBLEM_REQUIRE(!zch.has_distance_lfu(), "feature \"", name,
                 "\": zch.distance_lfu is not supported yet; use lfu or lru");
  EMBLEM_REQUIRE(zch.threshold_filtering_func().empty(), "feature \"", name,
                 "\": zch.threshold_filtering_func is not supported yet; use dynamicemb with a "
                 "frequency_admission_strategy, or remove it");
  EMBLEM_REQUIRE(!zch.has_lru() || zch.lru().decay_exponent() > 0.0f, "feature \"", name,
                 "\": zch.lru.decay_exponent is ", zch.lru().decay_exponent(),
                 ", expected more than 0");
}

void check_rows(const FeatureSettings& settings) {
  const std::string& name = settings.name;
  const std::vector<std::string> ways = row_settings(settings);
  const bool needs_one = is_sparse(settings) && settings.type != FeatureType::kTokenize;
  EMBLEM_REQUIRE(!needs_one || !ways.empty(), "feature \"", name,
                 "\" has no mapping from values to rows; set one of num_buckets, "
                 "hash_bucket_size, vocab_list, vocab_dict, vocab_file, zch and dynamicemb");
  EMBLEM_REQUIRE(settings.type != FeatureType::kTokenize || !settings.vocab_file.empty(),
                 "feature \"", name, "\" has no vocab_file; give it the tokenizer's model");
  EMBLEM_REQUIRE(ways.size() <= 1, "feature \"", name, "\" has more than one of ",
                 joined(ways, " "), "; keep one of them");
  EMBLEM_REQUIRE(settings.num_buckets.value_or(1) > 0, "feature \"", name,
                 "\": num_buckets is 0, expected at least 1");
  EMBLEM_REQUIRE(settings.hash_bucket_size.value_or(1) > 0, "feature \"", name,
                 "\": hash_bucket_size is 0, expected at least 1");
  for (const auto& [setting, rows] : {std::pair{"num_buckets", settings.num_buckets},
                                      std::pair{"hash_bucket_size", settings.hash_bucket_size}})
    EMBLEM_REQUIRE(rows.value_or(0) <= kMostBuckets, "feature \"", name, "\": ", setting, " is ",
                   *rows, ", expected at most ", kMostBuckets);
  if (settings.zch) check_zch(name, *settings.zch);
  EMBLEM_REQUIRE(!settings.dynamicemb || !settings.dynamicemb->has_max_capacity() ||
                     settings.dynamicemb->max_capacity() > 0,
                 "feature \"", name,
                 "\": dynamicemb.max_capacity is 0, expected at least 1; without it the table "
                 "grows without limit");
  EMBLEM_REQUIRE(!settings.dynamicemb || !settings.dynamicemb->has_init_table(), "feature \"", name,
                 "\": dynamicemb.init_table is not supported yet; continue from a checkpoint with "
                 "train_config.fine_tune_checkpoint");
  EMBLEM_REQUIRE(settings.vocab_file.empty() || settings.type == FeatureType::kTokenize ||
                     settings.default_bucketize_value,
                 "feature \"", name,
                 "\" has a vocab_file, but no default_bucketize_value; give it the row of words "
                 "that the file does not have");
}

void check_boundaries(const FeatureSettings& settings) {
  const std::vector<float>& boundaries = settings.boundaries;
  for (size_t i = 0; i < boundaries.size(); ++i) {
    EMBLEM_REQUIRE(!std::isnan(boundaries[i]), "feature \"", settings.name, "\": boundaries[", i,
                   "] is NaN");
    EMBLEM_REQUIRE(i == 0 || boundaries[i - 1] < boundaries[i], "feature \"", settings.name,
                   "\": boundaries must rise, but ", boundaries[i], " follows ", boundaries[i - 1]);
  }
}

void check_piecewise_linear(const FeatureSettings& settings) {
  const std::vector<float>& edges = settings.piecewise_linear;
  if (edges.empty()) return;
  const std::string& name = settings.name;
  EMBLEM_REQUIRE(edges.size() > 1, "feature \"", name,
                 "\": piecewise_linear has one edge, expected at least two");
  for (size_t i = 0; i < edges.size(); ++i) {
    EMBLEM_REQUIRE(std::isfinite(edges[i]), "feature \"", name, "\": piecewise_linear[", i, "] is ",
                   edges[i], ", expected a finite number");
    EMBLEM_REQUIRE(i == 0 || edges[i - 1] < edges[i], "feature \"", name,
                   "\": piecewise_linear must rise, but ", edges[i], " follows ", edges[i - 1]);
    EMBLEM_REQUIRE(i == 0 || std::isfinite(edges[i] - edges[i - 1]), "feature \"", name,
                   "\": piecewise_linear: the bin from ", edges[i - 1], " to ", edges[i],
                   " is too wide");
  }
  EMBLEM_REQUIRE(settings.boundaries.empty(), "feature \"", name,
                 "\" has boundaries, which make it categorical, and piecewise_linear, which is for "
                 "numbers; keep one of them");
  EMBLEM_REQUIRE(settings.value_dim.value_or(1) == 1, "feature \"", name,
                 "\" has piecewise_linear, which is for one number, but value_dim ",
                 *settings.value_dim);
  EMBLEM_REQUIRE(!settings.autodis, "feature \"", name,
                 "\" has piecewise_linear and autodis; use mlp for an embedding, or remove one");
}

// autodis and mlp make a vector of a number.
void check_dense_embedding(const FeatureSettings& settings, bool in_sequence) {
  if (!settings.autodis && !settings.mlp) return;
  const char* way = settings.autodis ? "autodis" : "mlp";
  EMBLEM_REQUIRE(!is_sparse(settings), "feature \"", settings.name, "\" is categorical, but has ",
                 way, ", which is for numbers; remove it");
  EMBLEM_REQUIRE(!in_sequence, "feature \"", settings.name, "\" is part of a sequence, where ", way,
                 " is not supported; remove it");
  EMBLEM_REQUIRE(settings.embedding_dim > 0, "feature \"", settings.name, "\" has ", way,
                 ", but no embedding_dim");
  EMBLEM_REQUIRE(!settings.autodis || settings.autodis->num_channels() > 0, "feature \"",
                 settings.name, "\": autodis.num_channels is 0, expected at least 1");
  EMBLEM_REQUIRE(!settings.autodis || settings.autodis->temperature() > 0, "feature \"",
                 settings.name, "\": autodis.temperature is ",
                 settings.autodis ? settings.autodis->temperature() : 0, ", expected more than 0");
}

// How the numbers of a column are written.
void check_number_form(const FeatureSettings& settings) {
  EMBLEM_REQUIRE(
      settings.number_format == config::PLAIN || settings.date_part == config::NO_DATE,
      "feature \"", settings.name,
      "\" has number_format and date_part, but a column holds numbers or dates; keep one "
      "of them");
  EMBLEM_REQUIRE(!settings.day_first || settings.date_part != config::NO_DATE, "feature \"",
                 settings.name, "\" has day_first, but no date_part; give one, or remove it");
}

void check_embedding(const FeatureSettings& settings) {
  const std::string& name = settings.name;
  EMBLEM_REQUIRE(!settings.has_embedding_dim || settings.embedding_dim > 0, "feature \"", name,
                 "\": embedding_dim is 0, expected at least 1");
  EMBLEM_REQUIRE(is_one_of(settings.pooling, {"sum", "mean"}), "feature \"", name,
                 "\": pooling is \"", settings.pooling, "\", expected sum or mean");
  EMBLEM_REQUIRE(is_one_of(settings.data_type, {"FP32", "FP16", "BF16"}), "feature \"", name,
                 "\": data_type is \"", settings.data_type, "\", expected FP32, FP16 or BF16");
  if (settings.embedding_name)
    check_file_name(*settings.embedding_name,
                    cat("feature \"", printable(name), "\": embedding_name"));
}

}  // namespace

void check_file_name(const std::string& name, const std::string& what) {
  const std::string problem = name_problem(name);
  EMBLEM_REQUIRE(problem.empty(), what, " \"", printable(name.substr(0, 80)),
                 name.size() > 80 ? "..." : "", "\" ", problem, "; it names files: use up to ",
                 kLongestName, " letters, digits, \"_\", \"-\" and \".\"");
}

void require_in_batches(const FeatureSettings& settings) {
  EMBLEM_REQUIRE(!settings.stub_type, "feature \"", printable(settings.name),
                 "\" has stub_type: true, so that only other features read it");
}

void check_feature(const FeatureSettings& settings, bool in_sequence) {
  check_rows(settings);
  check_boundaries(settings);
  check_piecewise_linear(settings);
  check_number_form(settings);
  EMBLEM_REQUIRE(settings.type != FeatureType::kRaw || settings.value_dim.value_or(1) > 0,
                 "feature \"", settings.name, "\": value_dim is 0, expected at least 1");
  check_dense_embedding(settings, in_sequence);
  check_embedding(settings);
}

}  // namespace emblem
