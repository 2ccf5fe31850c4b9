// nn/ops/op_bench_test.h - runs a graph on a device and compares its nodes with plain formulas.
#pragma once

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <map>

#include "core/device/device_test.h"
#include "core/math/random.h"
#include "nn/graph.h"

namespace emblem {

// One graph with its inputs on a device, and its rows for the formulas.
class Bench {
 public:
  Bench(const Context& context, int64_t rows) : context_(context), rows_(rows) {}

  Node input(int64_t cols) {
    inputs_.push_back(graph.trained_input("x", cols));
    return inputs_.back();
  }
  // Prepares and fills the inputs, the first time, and runs.
  void run(Phase phase = Phase::kTrain, uint64_t draw = 1) {
    if (!prepared_) {
      graph.prepare(context_, rows_);
      graph.set_rows(rows_);
      for (size_t n = 0; n < inputs_.size(); ++n) {
        std::vector<float> x(rows_ * graph.cols(inputs_[n]));
        for (size_t i = 0; i < x.size(); ++i) x[i] = random_normal(23, n, i);
        set(inputs_[n], x);
      }
      std::vector<float> p = to_host(context_, graph.parameters());
      for (size_t i = 0; i < p.size(); ++i) p[i] += 0.3f * random_normal(29, 1, i);
      to_device(context_, p, graph.parameters());
      prepared_ = true;
    }
    graph.forward(context_, phase, draw);
    values_.clear();
  }
  void set(Node node, const std::vector<float>& values) {
    to_device(context_, values, graph.value(node));
    values_.erase(node.id);
  }
  // One after the other.
  void set_statistics(const std::vector<float>& values) {
    std::vector<float> all = to_host(context_, graph.statistics());
    auto value = values.begin();
    for (const Parameter& of : graph.statistic_list())
      for (int64_t i = 0; i < of.rows * of.cols; ++i) all[of.begin + i] = *value++;
    to_device(context_, all, graph.statistics());
  }
  std::vector<float> statistics() {
    const std::vector<float> all = to_host(context_, graph.statistics());
    std::vector<float> values;
    for (const Parameter& of : graph.statistic_list())
      values.insert(values.end(), &all[of.begin], &all[of.begin + of.rows * of.cols]);
    return values;
  }
  const std::vector<float>& values(Node node) {
    auto& values = values_[node.id];
    if (values.empty()) values = to_host(context_, graph.value(node));
    return values;
  }
  double at(Node node, int64_t row, int64_t col) {
    return values(node)[row * graph.cols(node) + col];
  }
  double parameter(const std::string& name, int64_t row, int64_t col) {
    if (parameters_.empty()) parameters_ = to_host(context_, graph.parameters());
    for (const Parameter& p : graph.parameter_list()) {
      if (p.name == name) return parameters_[p.begin + row * p.cols + col];
    }
    ADD_FAILURE() << "no parameter " << name;
    return 0.0;
  }
  void expect(Node node, const std::function<double(int64_t, int64_t)>& formula,
              double tolerance = 2e-5) {
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = 0; c < graph.cols(node); ++c) {
        const double expected = formula(r, c);
        ASSERT_NEAR(at(node, r, c), expected, tolerance * (1.0 + std::fabs(expected)))
            << "row " << r << " col " << c;
      }
    }
  }

  Graph graph{5};

 private:
  Context context_;
  int64_t rows_;
  bool prepared_ = false;
  std::vector<Node> inputs_;
  std::map<int, std::vector<float>> values_;  // by node, of the last run
  std::vector<float> parameters_;
};

}  // namespace emblem
