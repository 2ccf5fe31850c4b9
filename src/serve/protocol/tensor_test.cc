#include "serve/protocol/tensor.h"

#include <gmock/gmock.h>

#include <cstring>

#include "emblem/error.h"
#include "serve/protocol/fake_service_test.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<std::byte> bytes_of(std::initializer_list<float> values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

std::vector<std::string> strings_of(const OutputTensor& tensor) {
  std::vector<std::string> strings;
  for_each_string(tensor.data, element_count(tensor.shape),
                  [&](std::string_view text) { strings.emplace_back(text); });
  return strings;
}

TEST(DataTypeTest, IsFoundByTheNamesOfTheProtocolAndOfConfigurations) {
  EXPECT_EQ(data_type_from_name("INT64"), DataType::kInt64);
  EXPECT_EQ(data_type_from_name("TYPE_STRING"), DataType::kBytes);
  EXPECT_EQ(data_type_from_name("int64"), std::nullopt);
  EXPECT_STREQ(name_of(DataType::kBf16), "BF16");
}

TEST(ShapeTest, CountsElementsAndRefusesWhatCannotBe) {
  EXPECT_EQ(element_count(std::vector<int64_t>{2, 3}), 6);
  EXPECT_EQ(element_count(std::vector<int64_t>{}), 1);
  EXPECT_EQ(element_count(std::vector<int64_t>{0, int64_t{1} << 50}), 0);
  EXPECT_THROW(element_count(std::vector<int64_t>{2, -1}), Error);
  EXPECT_THROW(element_count(std::vector<int64_t>{int64_t{1} << 30, int64_t{1} << 30}), Error);
}

TEST(InputTensorTest, NeedsExactlyTheBytesOfItsShape) {
  const auto data = bytes_of({1, 2, 3, 4});
  check_bytes({"x", DataType::kFp32, {2, 2}, data});
  EXPECT_THAT(
      [&] {
        check_bytes({"x", DataType::kFp32, {2, 3}, data});
      },
      ThrowsMessage<Error>(HasSubstr("input x has 16 bytes; FP32 [2,3] needs 24")));
}

TEST(InputTensorTest, StringsMustFillTheirTensor) {
  const std::string raw("\x02\0\0\0hi\x00\0\0\0", 10);
  const std::span data(reinterpret_cast<const std::byte*>(raw.data()), raw.size());
  check_bytes({"s", DataType::kBytes, {2}, data});
  EXPECT_THROW(check_bytes({"s", DataType::kBytes, {1}, data}), Error);
  EXPECT_THROW(check_bytes({"s", DataType::kBytes, {3}, data}), Error);
  EXPECT_THROW(check_bytes({"s", DataType::kBytes, {1}, data.first(5)}), Error);
}

TEST(ClassifyTest, GivesTheHighestValuesOfEachRow) {
  const OutputTensor scores{"p", DataType::kFp32, {2, 3}, bytes_of({0.5f, 2, 1, 3, -1, 3})};
  const std::vector<std::string> labels = {"cat", "dog"};
  const OutputTensor top = classify(scores, 2, true, labels);
  EXPECT_THAT(top.shape, ElementsAre(2, 2));
  EXPECT_THAT(strings_of(top),
              ElementsAre("2.000000:1:dog", "1.000000:2", "3.000000:0:cat", "3.000000:2"));
}

TEST(LatencyHistogramTest, QuantilesAreWithinTenPercent) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.quantile_us(0.5), 0.0);
  for (int us = 1; us <= 1000; ++us) histogram.add(static_cast<uint64_t>(us) * 1000);
  EXPECT_NEAR(histogram.quantile_us(0.5), 500, 50);
  EXPECT_NEAR(histogram.quantile_us(0.99), 990, 99);
}

TEST(FakeServiceTest, AddsUpRows) {
  FakeService service;
  auto request = std::make_unique<InferRequest>();
  const auto data = bytes_of({1, 2, 3, 4, 5, 6, 7, 8});
  request->model = "sum";
  request->inputs = {{"A", DataType::kFp32, {2, 4}, data}};
  service.infer(std::move(request), [](InferResult result) {
    ASSERT_TRUE(std::holds_alternative<InferResponse>(result));
    EXPECT_EQ(std::get<InferResponse>(result).outputs[0].data, bytes_of({10, 26}));
  });
}

}  // namespace
}  // namespace emblem
