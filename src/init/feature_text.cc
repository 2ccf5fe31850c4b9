#include "init/feature_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>

#include "core/text/joined.h"
#include "core/text/text.h"
#include "init/feature_names.h"
#include "init/lower_case.h"

namespace emblem {
namespace {

using Kind = WrittenFeature::Kind;

// One on a line if they are many.
std::string text_list(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) quoted.push_back(proto_string(text));
  const std::string line = cat("[", joined(quoted), "]");
  return line.size() <= 100 ? line : "[\n" + quoted_lines(texts, "    ") + "  ]";
}

// With commas, several on a line.
std::string lines_of(const std::vector<std::string>& items, const std::string& indent) {
  std::string text, line;
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string item = items[i] + (i + 1 < items.size() ? ", " : "");
    if (!line.empty() && line.size() + item.size() > 100) {
      text += indent + std::string(trim(line)) + "\n";
      line.clear();
    }
    line += item;
  }
  return text + indent + line + "\n";
}

// The buckets of a part of a date: one for each value.
std::string boundaries_of(config::DatePart part) {
  const auto between = [](int first, int last) {
    std::vector<std::string> texts;
    for (int i = first; i < last; ++i) texts.push_back(fmt::format("{}.5", i));
    return cat("[", joined(texts), "]");
  };
  switch (part) {
    case config::HOUR:
      return between(0, 23);
    case config::WEEKDAY:
      return between(0, 6);
    default:
      return between(1, 12);
  }
}

// `bins` + 1 of the quantiles, those that differ as floats.
std::vector<std::string> edges_of(const std::vector<double>& quantiles, int64_t bins) {
  std::vector<std::string> edges;
  const int64_t last = std::ssize(quantiles) - 1;
  for (int64_t i = 0; bins > 0 && last > 0 && i <= bins; ++i) {
    std::string edge =
        fmt::format("{:.6g}", static_cast<float>(quantiles[static_cast<size_t>(i * last / bins)]));
    if (edges.empty() || edges.back() != edge) edges.push_back(std::move(edge));
  }
  return edges;
}

class FeatureWriter {
 public:
  FeatureWriter(const DataProfile& profile, const std::vector<ColumnChoice>& columns,
                const FeatureSizes& sizes)
      : profile_(profile), columns_(columns), sizes_(sizes) {
    std::vector<std::string> names;
    for (const ColumnProfile& column : profile.columns) names.push_back(column.name);
    names_ = feature_names_for(names);
    taken_.insert(names_.begin(), names_.end());
  }

  std::vector<WrittenFeature> features() {
    std::vector<WrittenFeature> features;
    for (size_t i = 0; i < columns_.size(); ++i) {
      const ColumnChoice& choice = columns_[i];
      switch (choice.use) {
        case ColumnUse::kNumber:
          features.push_back({names_[i], Kind::kNumber, comment(i) + number(i), ""});
          if (choice.value_dim == 0) add_bins(i, features);
          if (choice.missing_share >= 0.01 && choice.value_dim == 0) add_known(i, features);
          break;
        case ColumnUse::kCategory:
          features.push_back({names_[i], Kind::kCategory, comment(i) + category(i), ""});
          break;
        case ColumnUse::kSequence:
          add_sequence(i, features);
          break;
        case ColumnUse::kDate:
          for (const config::DatePart part : choice.parts) add_part(i, part, features);
          break;
        default:
          break;
      }
    }
    return features;
  }

 private:
  std::string comment(size_t i) const {
    const ColumnProfile& column = profile_.columns[i];
    const ColumnChoice& choice = columns_[i];
    std::string text = fmt::format("# {}", choice.found);
    if (choice.use == ColumnUse::kNumber && choice.number_format == config::PLAIN)
      text += fmt::format(" from {:g} to {:g}", column.min, column.max);
    else if (choice.use == ColumnUse::kCategory || choice.use == ColumnUse::kSequence)
      text += fmt::format(", {} distinct values", choice.distinct);
    if (choice.missing_share > 0)
      text += fmt::format(", {:.2g} % missing", 100 * choice.missing_share);
    if (!choice.warning.empty()) text += fmt::format("\n# {}", choice.warning);
    return text + "\n";
  }

  // feature_name, and the column where it is called otherwise.
  std::string name(const std::string& feature, size_t i) const {
    const std::string& column = profile_.columns[i].name;
    std::string text = fmt::format("feature_name: {}", proto_string(feature));
    if (feature != column) text += fmt::format(" expression: {}", proto_string("item:" + column));
    return text;
  }

  static std::string missing_texts(const ColumnChoice& choice) {
    return choice.na_strings.empty() ? ""
                                     : fmt::format(" na_strings: {}", text_list(choice.na_strings));
  }

  std::string number(size_t i) const {
    const ColumnChoice& choice = columns_[i];
    std::string text = fmt::format("feature_configs {{ raw_feature {{ {} normalizer: {}",
                                   name(names_[i], i), proto_string(choice.normalizer));
    if (choice.value_dim > 0) text += fmt::format(" value_dim: {}", choice.value_dim);
    if (choice.number_format != config::PLAIN)
      text += fmt::format(" number_format: {}", config::NumberFormat_Name(choice.number_format));
    return text + missing_texts(choice) + " } }\n";
  }

  // Bins of about equally many rows each: layers learn any function of the number from them.
  void add_bins(size_t i, std::vector<WrittenFeature>& features) {
    const ColumnChoice& choice = columns_[i];
    const std::vector<std::string> edges = edges_of(choice.quantiles, sizes_.bins);
    if (edges.size() < 3) return;  // one bin tells what the number tells
    const std::string feature = free_name(names_[i] + "_bins");
    std::string text = fmt::format(
        "feature_configs {{ raw_feature {{ {} default_value: \"{:g}\" piecewise_linear: [\n{}  ]",
        name(feature, i), choice.median, lines_of(edges, "    "));
    if (choice.number_format != config::PLAIN)
      text += fmt::format(" number_format: {}", config::NumberFormat_Name(choice.number_format));
    features.push_back({feature, Kind::kNumber, text + missing_texts(choice) + " } }\n", ""});
  }

  // Whether the number is there, which may say something itself: a bucket below the median, one
  // above, and none where it is missing.
  void add_known(size_t i, std::vector<WrittenFeature>& features) {
    const ColumnChoice& choice = columns_[i];
    const std::string feature = free_name(names_[i] + "_known");
    std::string text =
        fmt::format("feature_configs {{ raw_feature {{ {} boundaries: [{:g}] default_value: \"\"{}",
                    name(feature, i), choice.median, dim_text());
    if (choice.number_format != config::PLAIN)
      text += fmt::format(" number_format: {}", config::NumberFormat_Name(choice.number_format));
    features.push_back({feature, Kind::kCategory, text + missing_texts(choice) + " } }\n", ""});
  }

  std::string free_name(const std::string& wanted) {
    std::string name = wanted;
    for (int number = 2; !taken_.insert(name).second; ++number)
      name = fmt::format("{}_{}", wanted, number);
    return name;
  }

  std::string rows_of(const ColumnChoice& choice) const {
    const std::string rows =
        choice.vocabulary.empty()
            ? fmt::format(" dynamicemb {{ max_capacity: {} score_strategy: \"LFU\" }}",
                          capacity_for(choice.distinct))
            : fmt::format(" vocab_list: {}", text_list(choice.vocabulary));
    return rows + dim_text();
  }

  std::string dim_text() const {
    return sizes_.embedding_dim == 0 ? "" : fmt::format(" embedding_dim: {}", sizes_.embedding_dim);
  }

  std::string category(size_t i) const {
    const ColumnChoice& choice = columns_[i];
    std::string text = fmt::format("feature_configs {{ id_feature {{ {}", name(names_[i], i));
    if (!choice.separator.empty())
      text += fmt::format(" separator: {}", proto_string(choice.separator));
    if (!choice.separator.empty() || profile_.columns[i].is_list) text += " pooling: \"mean\"";
    return text + rows_of(choice) + shared_table(i) + " } }\n";
  }

  // A sequence and its query read one table.
  std::string shared_table(size_t i) const {
    if (sizes_.lists == FeatureSizes::Lists::kPooled) return "";
    for (const ColumnChoice& choice : columns_)
      if (choice.use == ColumnUse::kSequence && choice.target == profile_.columns[i].name)
        return fmt::format(" embedding_name: {}", proto_string(names_[i] + "_emb"));
    return "";
  }

  void add_sequence(size_t i, std::vector<WrittenFeature>& features) const {
    const ColumnChoice& choice = columns_[i];
    if (sizes_.lists == FeatureSizes::Lists::kPooled) {
      features.push_back({names_[i], Kind::kCategory, comment(i) + category(i), ""});
      return;
    }
    std::string target;
    for (size_t j = 0; j < columns_.size(); ++j)
      if (profile_.columns[j].name == choice.target) target = names_[j];
    std::string text =
        fmt::format("feature_configs {{ sequence_id_feature {{ {}", name(names_[i], i));
    if (!choice.separator.empty())
      text += fmt::format(" sequence_delim: {}", proto_string(choice.separator));
    constexpr int64_t kLongest = 100;
    text += fmt::format(" sequence_length: {}", std::clamp<int64_t>(choice.longest, 1, kLongest));
    text += rows_of(choice) + fmt::format(" embedding_name: {}", proto_string(target + "_emb"));
    features.push_back({names_[i], Kind::kSequence, comment(i) + text + " } }\n", target});
  }

  void add_part(size_t i, config::DatePart part, std::vector<WrittenFeature>& features) {
    const ColumnChoice& choice = columns_[i];
    const std::string feature =
        free_name(names_[i] + "_" + lower_case(config::DatePart_Name(part)));
    std::string text = part == choice.parts.front() ? comment(i) : "";
    text += fmt::format("feature_configs {{ raw_feature {{ {} date_part: {}", name(feature, i),
                        config::DatePart_Name(part));
    if (choice.day_first) text += " day_first: true";
    text += missing_texts(choice);
    const bool is_number = part == config::DAYS;
    text += is_number ? fmt::format(" normalizer: {}", proto_string(choice.normalizer))
                      : fmt::format(" boundaries: {} default_value: \"\"{}", boundaries_of(part),
                                    dim_text());
    features.push_back({feature, is_number ? Kind::kNumber : Kind::kCategory, text + " } }\n", ""});
  }

  const DataProfile& profile_;
  const std::vector<ColumnChoice>& columns_;
  FeatureSizes sizes_;
  std::vector<std::string> names_;  // names of features, by column
  std::set<std::string> taken_;
};

}  // namespace

std::vector<WrittenFeature> write_features(const DataProfile& profile,
                                           const std::vector<ColumnChoice>& columns,
                                           const FeatureSizes& sizes) {
  return FeatureWriter(profile, columns, sizes).features();
}

std::string skipped_text(const DataProfile& profile, const std::vector<ColumnChoice>& columns) {
  std::string text;
  for (size_t i = 0; i < columns.size(); ++i)
    if (columns[i].use == ColumnUse::kSkipped)
      text += fmt::format("#   {}: {}\n", printable(profile.columns[i].name), columns[i].why);
  return text.empty() ? "" : "# Skipped columns:\n" + text;
}

std::string quoted_lines(const std::vector<std::string>& names, const std::string& indent) {
  std::vector<std::string> quoted;
  for (const std::string& name : names) quoted.push_back(proto_string(name));
  return lines_of(quoted, indent);
}

int64_t capacity_for(int64_t distinct) {
  return static_cast<int64_t>(
      std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(2 * distinct, 64))));
}

}  // namespace emblem
