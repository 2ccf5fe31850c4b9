// Every op against the CPU's, on every device; and the same bytes in every run.
#include <gmock/gmock.h>

#include <cstdlib>

#include "core/memory/allocation_fault.h"
#include "nn/ops/attention/sequence_cases_test.h"
#include "nn/ops/op_cases_test.h"

namespace emblem {
namespace {

using Named = std::pair<std::string, std::vector<float>>;

// All that a pass forward and back leaves.
std::vector<Named> results(const Context& context, const OpCase& c) {
  OpProbe probe(context, c);
  const double loss = probe.forward();
  std::vector<Named> all = {{"loss", {static_cast<float>(loss)}},
                            {"output", to_host(context, probe.output())}};
  probe.backward();
  for (const auto& trained : probe.trained())
    all.emplace_back("gradient of " + trained.name, to_host(context, trained.gradients));
  all.emplace_back("statistics", to_host(context, probe.statistics()));
  return all;
}

std::vector<OpCase> all_cases() {
  std::vector<OpCase> list = op_cases();
  for (auto* cases : {large_op_cases, sequence_cases, large_sequence_cases}) {
    for (OpCase& c : cases()) list.push_back(std::move(c));
  }
  return list;
}

class DeviceOpsTest : public testing::TestWithParam<std::tuple<OpCase, Device>> {
 protected:
  void SetUp() override {
    context_.device = std::get<1>(GetParam());
    context_.threads = &pool_;
    if (!device_is_usable(context_.device)) GTEST_SKIP() << "no CUDA device here";
  }
  const OpCase& op_case() { return std::get<0>(GetParam()); }

  ThreadPool pool_{2};
  Context context_;
};

void expect_near(const std::vector<Named>& actual, const std::vector<Named>& expected) {
  ASSERT_EQ(expected.size(), actual.size());
  for (size_t part = 0; part < expected.size(); ++part) {
    const auto& [name, values] = expected[part];
    double scale = 0.0;
    for (const float value : values) scale = std::max<double>(scale, std::fabs(value));
    ASSERT_EQ(actual[part].second.size(), values.size()) << name;
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(actual[part].second[i], values[i], 1e-4 * (scale + std::fabs(values[i])))
          << name << " at " << i;
    }
  }
}

TEST_P(DeviceOpsTest, AgreesWithTheCpu) {
  expect_near(results(context_, op_case()), results({}, op_case()));
}

// What GPUs of compute capability 8.6 and 8.9 have.
TEST_P(DeviceOpsTest, NeedsNoMoreThan99KiBOfSharedMemory) {
  if (context_.device == Device::kCpu) GTEST_SKIP() << "a CPU has none";
  setenv("EMBLEM_TEST_SHARED_MEMORY_BYTES", "101376", 1);
  const auto actual = results(context_, op_case());
  unsetenv("EMBLEM_TEST_SHARED_MEMORY_BYTES");
  expect_near(actual, results({}, op_case()));
}

TEST_P(DeviceOpsTest, ReadsNothingThatWasNotWritten) {
  const auto expected = results(context_, op_case());
  const PoisonedBuffers poisoned;
  const auto actual = results(context_, op_case());
  for (size_t part = 0; part < expected.size(); ++part)
    EXPECT_EQ(actual[part].second, expected[part].second) << expected[part].first;
}

TEST_P(DeviceOpsTest, GivesTheSameBytesInEveryRun) {
  const auto first = results(context_, op_case()), again = results(context_, op_case());
  for (size_t part = 0; part < first.size(); ++part)
    EXPECT_EQ(first[part].second, again[part].second) << first[part].first;
}

TEST(Ops, GiveTheSameBytesWithAnyNumberOfThreads) {
  for (const OpCase& c : all_cases()) {
    const auto alone = results({}, c);
    for (const int threads : {2, 3}) {
      ThreadPool pool(threads);
      EXPECT_EQ(results({.threads = &pool}, c), alone) << c.name << ", " << threads << " threads";
    }
  }
}

// Against the CPU in fp32, as a whole: single elements may be far off where sums cancel.
class NarrowOpsTest : public testing::TestWithParam<std::tuple<OpCase, DType>> {};

double distance(const std::vector<float>& actual, const std::vector<float>& expected) {
  double apart = 0.0, whole = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    apart += std::pow(static_cast<double>(actual[i]) - expected[i], 2);
    whole += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(apart / whole);
}

TEST_P(NarrowOpsTest, AgreesWithTheCpuAsFarAsSixteenBitsCan) {
  if (!device_is_usable(Device::kCuda)) GTEST_SKIP() << "no CUDA device here";
  const auto& [op_case, precision] = GetParam();
  constexpr float kScale = 1024.0f;
  const Context cuda{.device = Device::kCuda};
  OpProbe here({}, op_case), there(cuda, op_case, precision);
  there.set_loss_scale(kScale);
  const double expected_loss = here.forward(), actual_loss = there.forward();
  here.backward();
  there.backward();
  EXPECT_FALSE(there.overflowed());
  const auto expected = here.trained(), actual = there.trained();
  // Rounding adds up over layers, and turns some units of rectified layers off or on.
  const double layers = expected.size() > 4 ? 5.0 : 1.0;
  const double tolerance = layers * (precision == DType::kBf16 ? 0.05 : 0.02);
  EXPECT_NEAR(actual_loss, expected_loss, tolerance * std::max(1.0, expected_loss));
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    auto gradients = to_host(cuda, actual[i].gradients);
    for (float& gradient : gradients) gradient /= kScale;
    EXPECT_LT(distance(gradients, to_host({}, expected[i].gradients)), tolerance)
        << expected[i].name;
  }
}

TEST_P(NarrowOpsTest, ReadsNothingThatWasNotWritten) {
  if (!device_is_usable(Device::kCuda)) GTEST_SKIP() << "no CUDA device here";
  const auto& [op_case, precision] = GetParam();
  const Context cuda{.device = Device::kCuda};
  const auto gradients = [&, &c = op_case, type = precision] {
    OpProbe probe(cuda, c, type);
    probe.forward();
    probe.backward();
    std::vector<std::vector<float>> all;
    for (const auto& trained : probe.trained()) all.push_back(to_host(cuda, trained.gradients));
    return all;
  };
  const auto expected = gradients();
  const PoisonedBuffers poisoned;
  EXPECT_EQ(gradients(), expected);
}

INSTANTIATE_TEST_SUITE_P(, NarrowOpsTest,
                         testing::Combine(testing::ValuesIn(all_cases()),
                                          testing::Values(DType::kBf16, DType::kF16)),
                         [](const auto& info) {
                           return cat(std::get<0>(info.param).name, "_",
                                      name_of(std::get<1>(info.param)));
                         });

TEST(NarrowOps, SeeWhenGradientsOverflowInFp16) {
  if (!device_is_usable(Device::kCuda)) GTEST_SKIP() << "no CUDA device here";
  const Context cuda{.device = Device::kCuda};
  OpProbe probe(cuda, op_cases().front(), DType::kF16);
  for (const auto& [scale, overflows] : {std::pair(1.0f, false), {1e9f, true}, {1.0f, false}}) {
    probe.set_loss_scale(scale);
    probe.forward();
    probe.backward();
    EXPECT_EQ(probe.overflowed(), overflows) << scale;
  }
}

INSTANTIATE_TEST_SUITE_P(, DeviceOpsTest,
                         testing::Combine(testing::ValuesIn(all_cases()),
                                          testing::Values(Device::kCpu, Device::kCuda)),
                         [](const auto& info) {
                           return cat(std::get<0>(info.param).name, "_", std::get<1>(info.param));
                         });

}  // namespace
}  // namespace emblem
