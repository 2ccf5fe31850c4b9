// Every op against the CPU's, on every device; and the same bytes in every run.
#include <gmock/gmock.h>

#include "nn/op_cases_test.h"

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
  for (OpCase& c : large_op_cases()) list.push_back(std::move(c));
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

TEST_P(DeviceOpsTest, AgreesWithTheCpu) {
  const auto expected = results({}, op_case()), actual = results(context_, op_case());
  ASSERT_EQ(expected.size(), actual.size());
  for (size_t part = 0; part < expected.size(); ++part) {
    const auto& [name, values] = expected[part];
    double scale = 0.0;
    for (const float value : values) scale = std::max<double>(scale, std::fabs(value));
    ASSERT_EQ(actual[part].second.size(), values.size()) << name;
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(actual[part].second[i], values[i], 2e-5 * scale + 2e-5 * std::fabs(values[i]))
          << name << " at " << i;
    }
  }
}

TEST_P(DeviceOpsTest, GivesTheSameBytesInEveryRun) {
  const auto first = results(context_, op_case()), again = results(context_, op_case());
  for (size_t part = 0; part < first.size(); ++part)
    EXPECT_EQ(first[part].second, again[part].second) << first[part].first;
}

INSTANTIATE_TEST_SUITE_P(, DeviceOpsTest,
                         testing::Combine(testing::ValuesIn(all_cases()),
                                          testing::Values(Device::kCpu, Device::kCuda)),
                         [](const auto& info) {
                           return cat(std::get<0>(info.param).name, "_", std::get<1>(info.param));
                         });

}  // namespace
}  // namespace emblem
