// serve/http/status/metric_families.h - the text format of Prometheus, with the samples of each
// metric together after one HELP and one TYPE line, whatever order they come in.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace emblem {

class MetricFamilies {
 public:
  // `type`: counter, gauge, histogram, summary, untyped. Where a name is described again, the first
  // description stays.
  void describe(std::string_view name, std::string_view type, std::string_view help);
  // One line: name{labels} value; `labels` may be empty. Names with a suffix of histograms and
  // summaries (_bucket, _sum, _count) belong to those.
  void add(std::string_view name, std::string_view labels, std::string_view value);
  // Lines in the text format, HELP and TYPE included; what is not one is dropped.
  void add_text(std::string_view text);

  std::string text() const;

 private:
  struct Family {
    std::string type, help;  // empty: not described
    std::string samples;
  };

  Family& family(std::string_view name);
  Family& family_of_sample(std::string_view name);
  void add_comment(std::string_view line);

  std::vector<std::string> order_;
  std::map<std::string, Family, std::less<>> families_;
};

}  // namespace emblem
