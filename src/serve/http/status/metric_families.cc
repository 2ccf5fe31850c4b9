#include "serve/http/status/metric_families.h"

#include <algorithm>

namespace emblem {
namespace {

// The first word of `text`, which loses it.
std::string_view take_word(std::string_view& text) {
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(std::min(word.size() + 1, text.size()));
  return word;
}

}  // namespace

MetricFamilies::Family& MetricFamilies::family(std::string_view name) {
  const auto found = families_.find(name);
  if (found != families_.end()) return found->second;
  order_.emplace_back(name);
  return families_[std::string(name)];
}

MetricFamilies::Family& MetricFamilies::family_of_sample(std::string_view name) {
  for (const std::string_view suffix : {"_bucket", "_sum", "_count"}) {
    if (!name.ends_with(suffix)) continue;
    const auto found = families_.find(name.substr(0, name.size() - suffix.size()));
    if (found == families_.end()) continue;
    if (found->second.type == "histogram" || found->second.type == "summary") return found->second;
  }
  return family(name);
}

void MetricFamilies::describe(std::string_view name, std::string_view type, std::string_view help) {
  Family& one = family(name);
  if (one.type.empty()) one.type = type;
  if (one.help.empty()) one.help = help;
}

void MetricFamilies::add(std::string_view name, std::string_view labels, std::string_view value) {
  std::string& samples = family_of_sample(name).samples;
  samples += name;
  if (!labels.empty()) samples.append("{").append(labels).append("}");
  samples.append(" ").append(value).append("\n");
}

void MetricFamilies::add_comment(std::string_view line) {
  take_word(line);  // #
  const std::string_view kind = take_word(line), name = take_word(line);
  if (name.empty()) return;
  if (kind == "HELP") describe(name, "", line);
  if (kind == "TYPE") describe(name, line, "");
}

void MetricFamilies::add_text(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.empty()) continue;
    if (line[0] == '#') {
      add_comment(line);
      continue;
    }
    const size_t end = line.find_first_of("{ ");
    if (end == 0 || end == std::string_view::npos) continue;
    family_of_sample(line.substr(0, end)).samples.append(line).append("\n");
  }
}

std::string MetricFamilies::text() const {
  std::string text;
  for (const std::string& name : order_) {
    const Family& one = families_.find(name)->second;
    if (one.samples.empty()) continue;
    text.append("# HELP ").append(name).append(" ");
    text.append(one.help.empty() ? "See docs/serving.md" : one.help).append("\n");
    text.append("# TYPE ").append(name).append(" ");
    text.append(one.type.empty() ? "untyped" : one.type).append("\n").append(one.samples);
  }
  return text;
}

}  // namespace emblem
