#include "serve/http/api/json_tensor.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<std::byte> read(const std::string& text, DataType type, std::vector<int64_t> shape) {
  JsonReader reader(text);
  MemoryBudget::Lease lease;
  auto data = read_json_tensor(reader, {"x", type, std::move(shape), {}}, lease);
  reader.end();
  return data;
}

template <class T>
std::vector<T> values(const std::vector<std::byte>& data) {
  std::vector<T> result(data.size() / sizeof(T));
  if (!data.empty()) std::memcpy(result.data(), data.data(), data.size());
  return result;
}

template <class T>
OutputTensor output(DataType type, std::vector<T> from) {
  OutputTensor tensor{"y", type, {static_cast<int64_t>(from.size())}, {}};
  tensor.data.resize(from.size() * sizeof(T));
  if (!from.empty()) std::memcpy(tensor.data.data(), from.data(), tensor.data.size());
  return tensor;
}

TEST(JsonTensorTest, ReadsFlatAndNestedDataOfEveryType) {
  EXPECT_THAT(values<float>(read("[1, 2.5, -3e-2, 4]", DataType::kFp32, {2, 2})),
              ElementsAre(1, 2.5f, -0.03f, 4));
  EXPECT_THAT(values<int64_t>(read("[[1,2],[3,-9223372036854775808]]", DataType::kInt64, {2, 2})),
              ElementsAre(1, 2, 3, std::numeric_limits<int64_t>::min()));
  EXPECT_THAT(values<uint64_t>(read("[18446744073709551615]", DataType::kUint64, {1})),
              ElementsAre(std::numeric_limits<uint64_t>::max()));
  EXPECT_THAT(values<int8_t>(read("[-128,127]", DataType::kInt8, {2})), ElementsAre(-128, 127));
  EXPECT_THAT(values<uint8_t>(read("[0,255]", DataType::kUint8, {2})), ElementsAre(0, 255));
  EXPECT_THAT(values<int16_t>(read("[-32768]", DataType::kInt16, {1})), ElementsAre(-32768));
  EXPECT_THAT(values<uint16_t>(read("[65535]", DataType::kUint16, {1})), ElementsAre(65535));
  EXPECT_THAT(values<int32_t>(read("[-5]", DataType::kInt32, {1, 1})), ElementsAre(-5));
  EXPECT_THAT(values<uint32_t>(read("[4294967295]", DataType::kUint32, {1})),
              ElementsAre(4294967295u));
  EXPECT_THAT(values<double>(read("[0.1]", DataType::kFp64, {})), ElementsAre(0.1));
  EXPECT_THAT(values<uint8_t>(read("[true,false]", DataType::kBool, {2})), ElementsAre(1, 0));
  EXPECT_THAT(read("[[],[]]", DataType::kFp32, {2, 0}), ElementsAre());
}

TEST(JsonTensorTest, StringsBecomeLengthsAndBytes) {
  std::vector<std::string> strings;
  const auto data = read(R"([["h\u00e9"],[""]])", DataType::kBytes, {2, 1});
  for_each_string(data, 2, [&](std::string_view text) { strings.emplace_back(text); });
  EXPECT_THAT(strings, ElementsAre("h\xC3\xA9", ""));
}

TEST(JsonTensorTest, FloatsRoundOnceAndMayBeNeitherFiniteNorNormal) {
  // Halfway cases that come out wrong by way of double.
  EXPECT_EQ(values<float>(read("[1.00000005960464477540]", DataType::kFp32, {1}))[0],
            1.00000005960464477540f);
  const auto special =
      values<float>(read("[NaN, Infinity, -Infinity, 1e-45, 1e-60, -0.0]", DataType::kFp32, {6}));
  EXPECT_TRUE(std::isnan(special[0]));
  EXPECT_EQ(special[1], std::numeric_limits<float>::infinity());
  EXPECT_EQ(special[2], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(special[3], std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(special[4], 0.0f);
  EXPECT_TRUE(std::signbit(special[5]));
}

TEST(JsonTensorTest, RefusesWhatTheTypeCannotHold) {
  const auto refused = [](const char* text, DataType type, const char* why) {
    EXPECT_THAT([&] { read(text, type, {1}); }, ThrowsMessage<Error>(HasSubstr(why))) << text;
  };
  refused("[128]", DataType::kInt8, "input x: 128 is not a value of INT8");
  refused("[-1]", DataType::kUint64, "-1 is not a value of UINT64");
  refused("[1.5]", DataType::kInt64, "1.5 is not a value of INT64");
  refused("[NaN]", DataType::kInt32, "NaN is not a value of INT32");
  refused("[1e39]", DataType::kFp32, "1e39 is not a value of FP32");
  refused("[1e999]", DataType::kFp64, "1e999 is not a value of FP64");
  refused("[\"1\"]", DataType::kFp32, "expected a number");
  refused("[1]", DataType::kBool, "expected true or false");
  refused("[1]", DataType::kBytes, "expected a string");
  refused("[1]", DataType::kFp16, "no JSON form");
  refused("[1]", DataType::kBf16, "no JSON form");
  refused("1", DataType::kFp32, "expected an array");
  refused("[null]", DataType::kFp32,
          "input x: null is not a value of FP32; write NaN for a missing number");
}

TEST(JsonTensorTest, RefusesDataThatIsNotOfItsShape) {
  const auto refused = [](const char* text, std::vector<int64_t> shape, const char* why) {
    EXPECT_THAT([&] { read(text, DataType::kInt64, shape); }, ThrowsMessage<Error>(HasSubstr(why)))
        << text;
  };
  refused("[1,2,3]", {2, 2}, "fewer values than the 4 of its shape [2,2]");
  refused("[1,2,3,4,5]", {2, 2}, "more values than the 4");
  refused("[[1,2,3],[4]]", {2, 2}, "an array of 3 where the shape [2,2] needs 2");
  refused("[[[1,2],[3,4]]]", {2, 2}, "nested deeper than its shape");
  refused("[1]", {1, -1}, "negative");
  refused("[1]", {1099511627776}, "fewer values");
}

TEST(JsonTensorTest, WhatIsWrittenReadsBackBitForBit) {
  std::mt19937_64 random(7);
  std::vector<float> floats;
  std::vector<double> doubles;
  while (floats.size() < 2000) {
    float f;
    double d;
    const auto low = static_cast<uint32_t>(random());
    const uint64_t bits = random();
    std::memcpy(&f, &low, sizeof(f));
    std::memcpy(&d, &bits, sizeof(d));
    if (!std::isfinite(f) || !std::isfinite(d)) continue;
    floats.push_back(f);
    doubles.push_back(d);
  }
  std::string text;
  append_json_tensor(text, output(DataType::kFp32, floats));
  EXPECT_EQ(values<float>(read(text, DataType::kFp32, {2000})), floats);
  text.clear();
  append_json_tensor(text, output(DataType::kFp64, doubles));
  EXPECT_EQ(values<double>(read(text, DataType::kFp64, {2000})), doubles);
}

TEST(JsonTensorTest, WritesEveryType) {
  const auto text_of = [](const OutputTensor& tensor) {
    std::string text;
    append_json_tensor(text, tensor);
    return text;
  };
  EXPECT_EQ(text_of(output<int8_t>(DataType::kInt8, {-1, 65})), "[-1,65]");
  EXPECT_EQ(text_of(output<uint8_t>(DataType::kUint8, {255})), "[255]");
  EXPECT_EQ(text_of(output<int16_t>(DataType::kInt16, {-300})), "[-300]");
  EXPECT_EQ(text_of(output<uint16_t>(DataType::kUint16, {300})), "[300]");
  EXPECT_EQ(text_of(output<int32_t>(DataType::kInt32, {-70000})), "[-70000]");
  EXPECT_EQ(text_of(output<uint32_t>(DataType::kUint32, {70000})), "[70000]");
  EXPECT_EQ(text_of(output<int64_t>(DataType::kInt64, {INT64_MIN})), "[-9223372036854775808]");
  EXPECT_EQ(text_of(output<uint64_t>(DataType::kUint64, {UINT64_MAX})), "[18446744073709551615]");
  EXPECT_EQ(text_of(output<uint8_t>(DataType::kBool, {1, 0})), "[true,false]");
  EXPECT_EQ(text_of(output<float>(DataType::kFp32, {NAN, INFINITY})), "[NaN,Infinity]");
  EXPECT_EQ(text_of(output<float>(DataType::kFp32, {})), "[]");
  OutputTensor strings = output<uint8_t>(DataType::kBytes, {2, 0, 0, 0, 'h', '"'});
  strings.shape = {1};
  EXPECT_EQ(text_of(strings), "[\"h\\\"\"]");
  strings.data[4] = std::byte{0xFF};
  EXPECT_THAT([&] { text_of(strings); }, ThrowsMessage<Error>(HasSubstr("not UTF-8")));
  EXPECT_THROW(text_of(output<uint16_t>(DataType::kFp16, {1})), Error);
}

TEST(JsonTensorTest, KnowsTheMostThatItWrites) {
  const auto check = [](const OutputTensor& tensor) {
    std::string text;
    append_json_tensor(text, tensor);
    EXPECT_LE(text.size(), most_json_bytes(tensor)) << text;
  };
  check(output<float>(DataType::kFp32, std::vector<float>(50, -1.17549435e-38f)));
  check(output<float>(DataType::kFp32, std::vector<float>(50, -INFINITY)));
  check(output<double>(DataType::kFp64, std::vector<double>(50, -2.2250738585072014e-308)));
  check(output<int64_t>(DataType::kInt64, std::vector<int64_t>(50, INT64_MIN)));
  check(output<int16_t>(DataType::kInt16, std::vector<int16_t>(50, INT16_MIN)));
  check(output<int8_t>(DataType::kInt8, std::vector<int8_t>(50, INT8_MIN)));
  check(output<uint8_t>(DataType::kBool, std::vector<uint8_t>(50, 0)));
  OutputTensor strings = output<uint8_t>(DataType::kBytes, {0, 0, 0, 0, 3, 0, 0, 0, 0, 1, 2});
  strings.shape = {2};
  check(strings);
  check(output<float>(DataType::kFp32, {}));
}

TEST(JsonTensorTest, TextsTakeWhatTheirJsonHasAtMost) {
  MemoryBudget budget(1000);
  MemoryBudget::Lease lease(budget);
  const std::string text =
      R"(["\u0041bc","x","",")" + std::string(300, 'y') + R"("])" + std::string(5000, ' ');
  JsonReader reader(text);
  const auto data = read_json_tensor(reader, {"x", DataType::kBytes, {4}, {}}, lease);
  EXPECT_EQ(data.size(), 4 * 4 + 3 + 1 + 300u);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(data.data()) + 4, 3), "Abc");
  EXPECT_LE(data.capacity(), lease.bytes());
}

}  // namespace
}  // namespace emblem
