#include "embedding/cpu/segment_update.h"

#include <gmock/gmock.h>

#include <cmath>

#include "core/device/device_test.h"
#include "core/math/random.h"
#include "embedding/cpu/rows_on_device_test.h"

namespace emblem {
namespace {

// The published formulas in double, one weight at a time. `s` and `t` are the states.
struct Reference {
  double rate, step;
  void operator()(const Sgd&, double g, double& w, double&, double&) const { w -= rate * g; }
  void operator()(const Momentum& r, double g, double& w, double& s, double&) const {
    s = r.momentum * s + g;
    w -= rate * s;
  }
  void operator()(const AdaGrad& r, double g, double& w, double& s, double&) const {
    s += g * g;
    w -= rate * g / (std::sqrt(s) + r.epsilon);
  }
  void operator()(const Adam& r, double g, double& w, double& s, double& t) const {
    s = r.beta1 * s + (1 - r.beta1) * g;
    t = r.beta2 * t + (1 - r.beta2) * g * g;
    w -= rate * (s / (1 - std::pow(r.beta1, step))) /
         (std::sqrt(t / (1 - std::pow(r.beta2, step))) + r.epsilon);
  }
  void operator()(const Ftrl& r, double g, double& w, double& s, double& t) const {
    s += g - (std::sqrt(t + g * g) - std::sqrt(t)) / rate * w;
    t += g * g;
    const double sign = s < 0 ? -1 : 1;
    w = std::abs(s) <= r.l1 ? 0 : -(s - sign * r.l1) / ((r.beta + std::sqrt(t)) / rate + r.l2);
  }
  void operator()(const RmsProp& r, double g, double& w, double& s, double&) const {
    s = r.alpha * s + (1 - r.alpha) * g * g;
    w -= rate * g / (std::sqrt(s) + r.epsilon);
  }
  void operator()(const AdaDelta& r, double g, double& w, double& s, double& t) const {
    s = r.rho * s + (1 - r.rho) * g * g;
    const double change = std::sqrt((t + r.epsilon) / (s + r.epsilon)) * g;
    t = r.rho * t + (1 - r.rho) * change * change;
    w -= rate * change;
  }
  template <class RowWise>
  void operator()(const RowWise&, double, double&, double&, double&) const {}
};

class SegmentUpdateTest : public DeviceTest {
 protected:
  // Segments over rows 5, 0, 7: no, one and three occurrences.
  struct Batch {
    std::vector<uint32_t> rows = {5, 0, 7}, offsets = {0, 0, 1, 4}, sources = {2, 0, 40, 17};
    std::vector<float> coefficients = {0.5f, 2.0f, -1.0f, 1.0f};
  };

  void expect_reference(const Rule& rule, int64_t dim, DType dtype, float l2, bool weighted) {
    const int64_t state_floats = emblem::state_floats(rule, dim);
    RowsOnDevice rows(context_, 9, dim, dtype, state_floats);
    Random random{.seed = 4};
    std::vector<float> gradients(40 + dim);
    for (float& g : gradients) g = random.normal();
    std::vector<RowsOnDevice::Row> expected;
    for (int r = 0; r < 9; ++r) {
      RowsOnDevice::Row row;
      for (int64_t d = 0; d < dim; ++d) row.weights.push_back(random.normal());
      for (int64_t i = 0; i < state_floats; ++i) row.state.push_back(random.uniform() + 0.1f);
      rows.set(r, row);
      expected.push_back(rows.get(r));  // as stored
    }
    const Batch batch;
    const float scale = 0.25f, rate = 0.1f;
    for (size_t s = 0; s < batch.rows.size(); ++s) {
      std::vector<double> sum(dim);
      for (uint32_t i = batch.offsets[s]; i < batch.offsets[s + 1]; ++i) {
        for (int64_t d = 0; d < dim; ++d) {
          sum[d] += (weighted ? batch.coefficients[i] : 1.0) * gradients[batch.sources[i] + d];
        }
      }
      apply(rule, dim, rate, scale, l2, sum, expected[batch.rows[s]]);
    }

    const auto numbers = Buffer<uint32_t>::from(context_, batch.rows);
    const auto offsets = Buffer<uint32_t>::from(context_, batch.offsets);
    const auto sources = Buffer<uint32_t>::from(context_, batch.sources);
    const auto coefficients = Buffer<float>::from(context_, batch.coefficients);
    const auto device_gradients = Buffer<float>::from(context_, gradients);
    segment_update(context_, {.rows = rows.ref(),
                              .segments = {numbers.data(), offsets.data(), sources.data(),
                                           weighted ? coefficients.data() : nullptr, 3},
                              .gradients = device_gradients.data(),
                              .scale = scale,
                              .l2 = l2,
                              .rule = at_step(rule, rate, kStep)});
    const double tolerance = dtype == DType::kF32 ? 2e-5 : dtype == DType::kF16 ? 2e-3 : 2e-2;
    for (int r = 0; r < 9; ++r) {
      const auto row = rows.get(r);
      for (int64_t d = 0; d < dim; ++d) {
        ASSERT_NEAR(row.weights[d], expected[r].weights[d],
                    tolerance * (1 + std::abs(row.weights[d])))
            << name_of(rule) << " " << name_of(dtype) << " row " << r << " weight " << d;
      }
      for (int64_t i = 0; i < state_floats; ++i) {
        ASSERT_NEAR(row.state[i], expected[r].state[i], 1e-4 * (1 + std::abs(row.state[i])))
            << name_of(rule);
      }
    }
  }

 private:
  static constexpr int64_t kStep = 3;

  static void apply(const Rule& rule, int64_t dim, double rate, double scale, double l2,
                    std::vector<double> sum, RowsOnDevice::Row& row) {
    for (int64_t d = 0; d < dim; ++d) sum[d] = scale * sum[d] + l2 * row.weights[d];
    if (const auto* row_wise = std::get_if<RowWiseAdaGrad>(&rule)) {
      double square = 0;
      for (const double g : sum) square += g * g;
      const double state = row.state[0] + square / static_cast<double>(dim);
      row.state[0] = static_cast<float>(state);
      for (int64_t d = 0; d < dim; ++d) {
        row.weights[d] -=
            static_cast<float>(rate * (sum[d] / (std::sqrt(state) + row_wise->epsilon) +
                                       row_wise->decoupled_decay * row.weights[d]));
      }
      return;
    }
    if (const auto* adam = std::get_if<PartialRowWiseAdam>(&rule)) {
      double square = 0;
      for (const double g : sum) square += g * g / static_cast<double>(dim);
      const double second = adam->beta2 * row.state[dim] + (1 - adam->beta2) * square;
      row.state[dim] = static_cast<float>(second);
      for (int64_t d = 0; d < dim; ++d) {
        const double first = adam->beta1 * row.state[d] + (1 - adam->beta1) * sum[d];
        row.state[d] = static_cast<float>(first);
        row.weights[d] -= static_cast<float>(
            rate * (first / (1 - std::pow(adam->beta1, kStep)) /
                        (std::sqrt(second / (1 - std::pow(adam->beta2, kStep))) + adam->epsilon) +
                    adam->decoupled_decay * row.weights[d]));
      }
      return;
    }
    const int states = static_cast<int>(row.state.size() / dim);
    for (int64_t d = 0; d < dim; ++d) {
      double w = row.weights[d], s = states > 0 ? row.state[d] : 0,
             t = states > 1 ? row.state[dim + d] : 0;
      std::visit([&](const auto& r) { Reference{rate, kStep}(r, sum[d], w, s, t); }, rule);
      row.weights[d] = static_cast<float>(w);
      if (states > 0) row.state[d] = static_cast<float>(s);
      if (states > 1) row.state[dim + d] = static_cast<float>(t);
    }
  }
};

TEST_P(SegmentUpdateTest, FollowsThePublishedFormulaOfEveryRule) {
  for (const Rule& rule :
       {Rule(Sgd{}), Rule(Momentum{}), Rule(AdaGrad{}), Rule(RowWiseAdaGrad{}), Rule(Adam{}),
        Rule(Ftrl{.l1 = 0.2f, .l2 = 0.1f}), Rule(RowWiseAdaGrad{.decoupled_decay = 0.1f}),
        Rule(PartialRowWiseAdam{}), Rule(PartialRowWiseAdam{.decoupled_decay = 0.1f}),
        Rule(RmsProp{}), Rule(AdaDelta{})}) {
    for (const int64_t dim : {1, 3, 16, 50}) {
      for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
        expect_reference(rule, dim, dtype, 0.0f, false);
        expect_reference(rule, dim, dtype, 0.3f, true);
      }
    }
  }
}

TEST_P(SegmentUpdateTest, HandlesRowsLongerThanAnyBuffer) {
  expect_reference(AdaGrad{}, 1500, DType::kF32, 0.0f, false);
}

TEST_P(SegmentUpdateTest, NoSegmentsAreNoError) {
  const RowsOnDevice rows(context_, 1, 2, DType::kF32, 0);
  segment_update(context_, {.rows = rows.ref(), .rule = Sgd{}});
}

INSTANTIATE_TEST_SUITE_P(, SegmentUpdateTest, testing::Values(Device::kCpu), device_name);

}  // namespace
}  // namespace emblem
