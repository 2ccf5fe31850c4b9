#include "config/runs.h"

#include <fmt/format.h>

#include <charconv>

#include "emblem/error.h"

namespace emblem {
namespace {

constexpr int64_t kLongestRun = 100000;  // a slip of the keyboard should not fill the memory

bool has_braces(const std::string& text) { return text.find_first_of("{}") != std::string::npos; }

bool read_number(const std::string& digits, int64_t* number) {
  const char* end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, *number);
  return error == std::errc() && rest == end && *number >= 0;
}

// What the i-th feature of a run has in one of its text fields.
class RunText {
 public:
  RunText(const std::string& text, const std::string& field, const std::string& run, size_t count)
      : texts_(expand_run(text)) {
    EMBLEM_REQUIRE(texts_.size() == count || !has_braces(text), "features \"", run, "\": ", field,
                   " \"", text, "\" stands for ", texts_.size(), " names, expected ", count,
                   ", one for each feature");
  }
  const std::string& at(size_t i) const { return texts_.size() == 1 ? texts_[0] : texts_[i]; }

 private:
  std::vector<std::string> texts_;
};

// Sets names, expressions and tables of one feature of a run; the two kinds spell these fields
// alike.
template <class Feature>
class Run {
 public:
  explicit Run(const Feature& feature)
      : names_(expand_run(feature.feature_name())),
        run_(feature.feature_name()),
        expressions_(feature.expression(), "expression", run_, names_.size()),
        tables_(feature.embedding_name(), "embedding_name", run_, names_.size()) {}

  size_t size() const { return names_.size(); }
  void fill(Feature* feature, size_t i) const {
    if (feature->has_feature_name()) feature->set_feature_name(names_[i]);
    if (feature->has_expression()) feature->set_expression(expressions_.at(i));
    if (feature->has_embedding_name()) feature->set_embedding_name(tables_.at(i));
  }

 private:
  std::vector<std::string> names_;
  std::string run_;
  RunText expressions_, tables_;
};

void check_bucket_counts(const config::IdFeature& feature, size_t count) {
  if (feature.num_buckets_each_size() == 0) return;
  EMBLEM_REQUIRE(!feature.has_num_buckets(), "features \"", feature.feature_name(),
                 "\": num_buckets and num_buckets_each are both given; remove one of them");
  EMBLEM_REQUIRE(static_cast<size_t>(feature.num_buckets_each_size()) == count, "features \"",
                 feature.feature_name(), "\": num_buckets_each has ",
                 feature.num_buckets_each_size(), " numbers, expected ", count,
                 ", one for each feature");
}

void add_id_features(const config::FeatureConfig& source, config::PipelineConfig* config) {
  const Run run(source.id_feature());
  check_bucket_counts(source.id_feature(), run.size());
  for (size_t i = 0; i < run.size(); ++i) {
    config::FeatureConfig* added = config->add_feature_configs();
    *added = source;
    run.fill(added->mutable_id_feature(), i);
    if (source.id_feature().num_buckets_each_size() == 0) continue;
    added->mutable_id_feature()->set_num_buckets(
        source.id_feature().num_buckets_each(static_cast<int>(i)));
    added->mutable_id_feature()->clear_num_buckets_each();
  }
}

void add_raw_features(const config::FeatureConfig& source, config::PipelineConfig* config) {
  const Run run(source.raw_feature());
  for (size_t i = 0; i < run.size(); ++i) {
    config::FeatureConfig* added = config->add_feature_configs();
    *added = source;
    run.fill(added->mutable_raw_feature(), i);
  }
}

void expand_features(config::PipelineConfig* config) {
  google::protobuf::RepeatedPtrField<config::FeatureConfig> sources;
  sources.Swap(config->mutable_feature_configs());
  for (const config::FeatureConfig& source : sources) {
    if (source.has_id_feature())
      add_id_features(source, config);
    else if (source.has_raw_feature())
      add_raw_features(source, config);
    else
      *config->add_feature_configs() = source;
  }
}

void expand_group(config::FeatureGroupConfig* group) {
  google::protobuf::RepeatedPtrField<std::string> sources;
  sources.Swap(group->mutable_feature_names());
  for (const std::string& source : sources) {
    for (std::string& name : expand_run(source)) group->add_feature_names(std::move(name));
  }
}

void expand_input_fields(config::DataConfig* data) {
  google::protobuf::RepeatedPtrField<config::Field> sources;
  sources.Swap(data->mutable_input_fields());
  for (const config::Field& source : sources) {
    for (std::string& name : expand_run(source.input_name())) {
      config::Field* added = data->add_input_fields();
      *added = source;
      if (source.has_input_name()) added->set_input_name(std::move(name));
    }
  }
}

}  // namespace

std::vector<std::string> expand_run(const std::string& text) {
  if (!has_braces(text)) return {text};
  const size_t open = text.find('{'), dots = text.find("..", open), close = text.find('}');
  const auto require = [&](bool condition, const std::string& why) {
    EMBLEM_REQUIRE(condition, "\"", text, "\" is not a run of names: ", why,
                   "; write it like c{1..26}");
  };
  require(open != std::string::npos && dots != std::string::npos && close != std::string::npos &&
              dots < close,
          "its braces do not hold FIRST..LAST");
  const std::string first_digits = text.substr(open + 1, dots - open - 1);
  const std::string last_digits = text.substr(dots + 2, close - dots - 2);
  const std::string before = text.substr(0, open), after = text.substr(close + 1);
  int64_t first = 0, last = 0;
  require(read_number(first_digits, &first) && read_number(last_digits, &last),
          "its braces do not hold two numbers");
  require(!has_braces(after), "it has more than one pair of braces");
  require(first <= last, cat("it counts down from ", first, " to ", last));
  require(last - first < kLongestRun, cat("it is longer than ", kLongestRun));

  const size_t width = first_digits.size() > 1 && first_digits[0] == '0' ? first_digits.size() : 1;
  std::vector<std::string> names;
  for (int64_t i = first; i <= last; ++i)
    names.push_back(fmt::format("{}{:0{}}{}", before, i, width, after));
  return names;
}

void expand_runs(config::PipelineConfig* config) {
  expand_features(config);
  if (config->has_model_config()) {
    for (auto& group : *config->mutable_model_config()->mutable_feature_groups())
      expand_group(&group);
  }
  if (config->has_data_config()) expand_input_fields(config->mutable_data_config());
}

}  // namespace emblem
