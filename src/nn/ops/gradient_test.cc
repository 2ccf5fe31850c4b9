// Every op, and small models made of them, against central finite differences, on every device.
#include "nn/ops/op_cases_test.h"

namespace emblem {
namespace {

class Checker {
 public:
  Checker(const Context& context, const OpCase& c) : probe_(context, c) {}

  // Compares the gradients of parameters and of every input.
  void check() {
    probe_.forward();
    probe_.backward();
    std::vector<std::vector<float>> gradients;  // read before the next forward
    for (const auto& trained : probe_.trained())
      gradients.push_back(to_host(probe_.context(), trained.gradients));
    const auto trained = probe_.trained();
    for (size_t i = 0; i < trained.size(); ++i) compare(trained[i], gradients[i]);
    EXPECT_GT(checked_, 0);
    EXPECT_LE(kinks_, checked_ / 5) << "too few places where the function is smooth";
  }

 private:
  double loss_with(float* place, float value) {
    detail::copy(probe_.context(), place, &value, sizeof(value));
    probe_.context().synchronize();
    return probe_.forward();
  }

  double slope_at(float* place, float middle, float distance) {
    const float above = middle + distance, below = middle - distance;
    const double high = loss_with(place, above), low = loss_with(place, below);
    loss_with(place, middle);
    return (high - low) / (static_cast<double>(above) - below);
  }

  void compare(const OpProbe::Trained& trained, const std::vector<float>& analytic) {
    constexpr int kSamples = 30;
    float largest = 0.0f;
    for (const float slope : analytic) largest = std::max(largest, std::fabs(slope));
    ASSERT_GT(largest, 0.0f) << "the loss does not depend on it: the case tests nothing";
    const std::vector<float> values = to_host(probe_.context(), trained.values);
    const auto size = static_cast<int64_t>(values.size());
    Random random{5, static_cast<uint64_t>(size)};
    for (int sample = 0; sample < kSamples; ++sample) {
      const int64_t i = size <= kSamples ? sample : static_cast<int64_t>(random.below(size));
      if (i >= size) break;
      float* place = trained.values.data + i;
      const double coarse = slope_at(place, values[i], 0.02f),
                   fine = slope_at(place, values[i], 0.01f);
      ++checked_;
      // For smooth functions these differ by terms of the second order only; across the kink of a
      // piecewise linear one there is nothing to compare with.
      if (std::fabs(coarse - fine) > 0.01 * std::fabs(fine) + 0.002 * largest) {
        ++kinks_;
        continue;
      }
      const double numeric = (4.0 * fine - coarse) / 3.0;
      EXPECT_NEAR(analytic[i], numeric, 0.004 * std::fabs(numeric) + 0.003 * largest)
          << trained.name << " at " << i;
    }
  }

  OpProbe probe_;
  int checked_ = 0, kinks_ = 0;
};

class GradientTest : public testing::TestWithParam<std::tuple<OpCase, Device>> {};

TEST_P(GradientTest, AgreesWithFiniteDifferences) {
  const auto& [op_case, device] = GetParam();
  if (!device_is_usable(device)) GTEST_SKIP() << "no CUDA device here";
  ThreadPool pool(2);
  Context context;
  context.device = device;
  context.threads = &pool;
  Checker(context, op_case).check();
}

INSTANTIATE_TEST_SUITE_P(, GradientTest,
                         testing::Combine(testing::ValuesIn(op_cases()),
                                          testing::Values(Device::kCpu, Device::kCuda)),
                         [](const auto& info) {
                           return cat(std::get<0>(info.param).name, "_", std::get<1>(info.param));
                         });

}  // namespace
}  // namespace emblem
