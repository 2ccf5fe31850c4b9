// Every op, and small models made of them, against central finite differences, on every device.
#include "nn/ops/attention/sequence_cases_test.h"
#include "nn/ops/op_cases_test.h"

namespace emblem {
namespace {

class Checker {
 public:
  Checker(const Context& context, const OpCase& c)
      : probe_(context, c), noise_(1e-4 / std::sqrt(static_cast<double>(c.rows))) {}

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

  // Every element of small pieces, some of large ones. A slope that is small compared with others
  // of its piece must be right too: the tolerance is relative to the slope itself, plus the
  // uncertainty of the finite difference, from its second order and from the rounding of the loss.
  void compare(const OpProbe::Trained& trained, const std::vector<float>& analytic) {
    const std::vector<float> values = to_host(probe_.context(), trained.values);
    const size_t step = values.size() <= kMostCompared ? 1 : values.size() / kCompared;
    double largest = 0.0;
    for (size_t i = 0; i < values.size(); i += step) {
      float* place = trained.values.data + i;
      const double coarse = slope_at(place, values[i], 2 * kDistance),
                   fine = slope_at(place, values[i], kDistance), difference = coarse - fine;
      largest = std::max(largest, std::fabs(fine));
      ++checked_;
      // For smooth functions these differ by terms of the second order only; across the kink of a
      // piecewise linear one there is nothing to compare with.
      if (std::fabs(difference) > 0.02 * std::fabs(fine) + noise_) {
        ++kinks_;
        continue;
      }
      const double numeric = fine - difference / 3.0;
      EXPECT_NEAR(analytic[i], numeric,
                  0.004 * std::fabs(numeric) + 2.0 * std::fabs(difference) + noise_)
          << trained.name << " at " << i;
    }
    EXPECT_GT(largest, 10 * noise_)
        << trained.name << ": the loss hardly depends on it: the case tests nothing";
  }

  static constexpr size_t kMostCompared = 1000, kCompared = 200;  // elements of a piece
  static constexpr float kDistance = 0.01f;

  OpProbe probe_;
  // Noise of a slope: the losses of rows are rounded by about 1e-7 each, and averaged.
  double noise_;
  int checked_ = 0, kinks_ = 0;
};

std::vector<OpCase> gradient_cases() {
  std::vector<OpCase> list = op_cases();
  for (OpCase& c : sequence_cases()) list.push_back(std::move(c));
  return list;
}

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
                         testing::Combine(testing::ValuesIn(gradient_cases()),
                                          testing::Values(Device::kCpu, Device::kCuda)),
                         [](const auto& info) {
                           return cat(std::get<0>(info.param).name, "_", std::get<1>(info.param));
                         });

}  // namespace
}  // namespace emblem
