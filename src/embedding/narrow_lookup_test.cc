// Outputs and gradients in 16 bits: the same as in fp32, rounded.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/math/half.h"
#include "core/math/random.h"
#include "embedding/tables_test.h"

namespace emblem {
namespace {

std::vector<float> rounded(std::vector<float> values, DType type) {
  for (float& v : values)
    v = type == DType::kF16 ? F16::from(v).to_float() : Bf16::from(v).to_float();
  return values;
}

std::vector<uint16_t> narrowed(const std::vector<float>& values, DType type) {
  std::vector<uint16_t> bits;
  for (const float v : values)
    bits.push_back(type == DType::kF16 ? F16::from(v).bits : Bf16::from(v).bits);
  return bits;
}

std::vector<float> widened(const std::vector<uint16_t>& bits, DType type) {
  std::vector<float> values;
  for (const uint16_t b : bits)
    values.push_back(type == DType::kF16 ? F16{b}.to_float() : Bf16{b}.to_float());
  return values;
}

struct Case {
  int64_t dim;
  Placement placement;
  DType rows;
  Sums sums;
};

// Two lookups over equal tables, one of them in 16 bits.
void expect_the_same_rounded(const Case& c, DType type) {
  const Context cuda{.device = Device::kCuda};
  constexpr int64_t kBags = 700, kKeys = 300;
  TableSettings settings{.name = "t",
                         .dim = c.dim,
                         .dtype = c.rows,
                         .kind = TableKind::kDynamic,
                         .capacity = 1024,
                         .placement = c.placement};
  if (c.placement == Placement::kCache) settings.device_bytes = 400 * c.dim * 8;
  const auto wide_table = make_table(cuda, settings), narrow_table = make_table(cuda, settings);
  const std::vector<LookupFeature> wide_features = {{wide_table.get()},
                                                    {wide_table.get(), Pooling::kMean}},
                                   narrow_features = {{narrow_table.get()},
                                                      {narrow_table.get(), Pooling::kMean}};
  const auto wide = make_lookup(cuda, wide_features, {.sums = c.sums}),
             narrow = make_lookup(cuda, narrow_features, {.sums = c.sums});
  const int64_t size = kBags * wide->width();
  for (int step = 1; step <= 3; ++step) {
    Random random{static_cast<uint64_t>(step), 5};
    std::vector<int64_t> keys, bag_keys;
    std::vector<int32_t> offsets = {0};
    std::vector<float> gradients;
    for (int64_t b = 0; b < kBags; ++b) {
      keys.push_back(static_cast<int64_t>(random.below(kKeys)));
      for (uint64_t k = random.below(4); k > 0; --k)
        bag_keys.push_back(static_cast<int64_t>(random.below(kKeys)));
      offsets.push_back(static_cast<int32_t>(bag_keys.size()));
    }
    for (int64_t i = 0; i < size; ++i) gradients.push_back(random.normal());
    gradients = rounded(gradients, type);
    const auto keys_there = Buffer<int64_t>::from(cuda, keys),
               bag_keys_there = Buffer<int64_t>::from(cuda, bag_keys);
    const auto offsets_there = Buffer<int32_t>::from(cuda, offsets);
    const std::vector<FeatureKeys> features = {{keys_there.view(), {}, {}},
                                               {bag_keys_there.view(), offsets_there.view(), {}}};
    for (const Phase phase : {Phase::kEval, Phase::kTrain}) {
      Buffer<float> wide_out(Device::kCuda, kBags, wide->width());
      Buffer<uint16_t> narrow_out(Device::kCuda, kBags, wide->width());
      wide->forward(cuda, features, phase, wide_out.view());
      narrow->forward(cuda, features, phase,
                      {narrow_out.data(), kBags, wide->width(), type, Device::kCuda});
      const auto actual = widened(narrow_out.to_host(cuda), type),
                 expected = rounded(wide_out.to_host(cuda), type);
      for (int64_t i = 0; i < size; ++i) {  // rows may differ in their last bits after updates
        const double tolerance =
            step == 1 ? 0.0 : 0.01 * std::abs(expected[i]) + (c.rows == DType::kF32 ? 1e-4 : 5e-3);
        ASSERT_NEAR(actual[i], expected[i], tolerance) << "step " << step << " at " << i;
      }
    }
    const auto wide_gradients = Buffer<float>::from(cuda, gradients, wide->width());
    const auto narrow_gradients =
        Buffer<uint16_t>::from(cuda, narrowed(gradients, type), wide->width());
    const ConstAnyView narrow_view(narrow_gradients.data(), kBags, wide->width(), type,
                                   Device::kCuda);
    const double norm = wide->squared_gradient_norm(cuda, wide_gradients.view());
    EXPECT_NEAR(narrow->squared_gradient_norm(cuda, narrow_view), norm, 1e-6 * norm);
    wide->backward(cuda, wide_gradients.view(), 0.5f, 0.1f, step);
    narrow->backward(cuda, narrow_view, 0.5f, 0.1f, step);
    wide->check(cuda);
    narrow->check(cuda);
  }
  const Content expected = content_of(cuda, *wide_table), actual = content_of(cuda, *narrow_table);
  ASSERT_EQ(actual.keys.size(), expected.keys.size());
  std::map<int64_t, size_t> at;
  for (size_t i = 0; i < expected.keys.size(); ++i) at[expected.keys[i]] = i;
  const double tolerance = c.rows == DType::kF32 ? 1e-4 : 2e-2;  // sums may differ in their order
  for (size_t i = 0; i < actual.keys.size(); ++i) {
    for (int64_t d = 0; d < c.dim; ++d)
      ASSERT_NEAR(actual.weights[i * c.dim + d],
                  expected.weights[at.at(actual.keys[i]) * c.dim + d], tolerance);
  }
}

TEST(NarrowLookup, GivesAndTakesWhatAWideOneDoesRounded) {
  if (!device_is_usable(Device::kCuda)) GTEST_SKIP() << "no CUDA device here";
  for (const DType type : {DType::kBf16, DType::kF16}) {
    for (const Case& c : {Case{128, Placement::kDevice, DType::kF32, Sums::kFast},
                          Case{128, Placement::kDevice, DType::kF32, Sums::kDeterministic},
                          Case{128, Placement::kCache, DType::kF32, Sums::kFast},
                          Case{128, Placement::kHost, DType::kF32, Sums::kFast},
                          Case{128, Placement::kDevice, DType::kBf16, Sums::kFast},
                          Case{16, Placement::kDevice, DType::kF32, Sums::kFast},
                          Case{5, Placement::kDevice, DType::kF16, Sums::kFast},
                          Case{200, Placement::kCache, DType::kF16, Sums::kDeterministic}}) {
      SCOPED_TRACE(cat(name_of(type), " dim ", c.dim, " placement ", static_cast<int>(c.placement),
                       " rows ", name_of(c.rows), " sums ", static_cast<int>(c.sums)));
      expect_the_same_rounded(c, type);
    }
  }
}

TEST(NarrowLookup, OnACpuIsRefused) {
  const auto table = make_table({}, {.name = "t", .dim = 4, .capacity = 9});
  const auto lookup = make_lookup({}, std::vector<LookupFeature>{{table.get()}});
  const std::vector<int64_t> keys = {1, 2};
  const std::vector<FeatureKeys> features = {{{keys.data(), 2}, {}, {}}};
  std::vector<uint16_t> out(8);
  EXPECT_THROW(
      lookup->forward({}, features, Phase::kEval, {out.data(), 2, 4, DType::kBf16, Device::kCpu}),
      Error);
}

}  // namespace
}  // namespace emblem
