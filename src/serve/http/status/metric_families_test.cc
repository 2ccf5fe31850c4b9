#include "serve/http/status/metric_families.h"

#include <gtest/gtest.h>

namespace emblem {
namespace {

TEST(MetricFamiliesTest, SamplesOfAMetricAreTogetherWhateverOrderTheyComeIn) {
  MetricFamilies metrics;
  metrics.describe("a_total", "counter", "The first");
  metrics.add("a_total", "model=\"x\"", "1");
  metrics.add_text(
      "# HELP b_seconds A histogram\n# TYPE b_seconds histogram\n"
      "b_seconds_bucket{le=\"+Inf\"} 2\nb_seconds_sum 3\nb_seconds_count 2\n"
      "c{label=\"a b\"} 1.5\n");
  metrics.add_text(
      "# HELP b_seconds Another text\n\na_total{model=\"y\"} 4\nc 2\nb_seconds_count{m=\"z\"} 0");
  metrics.describe("nothing", "gauge", "Without samples");
  EXPECT_EQ(metrics.text(),
            "# HELP a_total The first\n# TYPE a_total counter\n"
            "a_total{model=\"x\"} 1\na_total{model=\"y\"} 4\n"
            "# HELP b_seconds A histogram\n# TYPE b_seconds histogram\n"
            "b_seconds_bucket{le=\"+Inf\"} 2\nb_seconds_sum 3\nb_seconds_count 2\n"
            "b_seconds_count{m=\"z\"} 0\n"
            "# HELP c See docs/serving.md\n# TYPE c untyped\nc{label=\"a b\"} 1.5\nc 2\n");
}

TEST(MetricFamiliesTest, WhatIsNotAMetricIsDropped) {
  MetricFamilies metrics;
  metrics.add_text("#\n# HELP\n# TYPE\n# a comment\n{x=\"1\"} 2\nword\n 3\n");
  EXPECT_EQ(metrics.text(), "");
}

}  // namespace
}  // namespace emblem
