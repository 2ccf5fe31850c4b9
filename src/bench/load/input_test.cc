#include "bench/load/input.h"

#include <gmock/gmock.h>

#include <cstring>
#include <set>

#include "bench/load/target.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

ModelMetadata dlrm() {
  return {"dlrm",
          {"1"},
          "emblem",
          {{"ids", DataType::kInt64, {-1, 3}}, {"dense", DataType::kFp32, {-1, 2}}},
          {{"score", DataType::kFp32, {-1, 1}}}};
}

template <class T>
std::vector<T> values_of(const LoadInput& input) {
  std::vector<T> values(input.data.size() / sizeof(T));
  std::memcpy(values.data(), input.data.data(), input.data.size());
  return values;
}

template <class Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(LoadInput, RandomRequestsFollowTheMetadata) {
  const LoadInputOptions options{.batch = 4, .variety = 3, .key_range = 10};
  const auto requests = random_load_requests(dlrm(), options);
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(rows_of(requests[0]), 4);
  EXPECT_THAT(requests[0].inputs[0].shape, ElementsAre(4, 3));
  EXPECT_THAT(requests[0].inputs[1].shape, ElementsAre(4, 2));
  for (const LoadRequest& request : requests) {
    for (const int64_t id : values_of<int64_t>(request.inputs[0])) {
      EXPECT_GE(id, 0);
      EXPECT_LT(id, 10);
    }
    for (const float value : values_of<float>(request.inputs[1])) EXPECT_LT(value, 1);
  }
  EXPECT_NE(requests[0].inputs[0].data, requests[1].inputs[0].data);
  EXPECT_EQ(random_load_requests(dlrm(), options)[2].inputs[0].data, requests[2].inputs[0].data);
}

TEST(LoadInput, IdsOfAPowerLawAreMostlySmall) {
  const LoadInputOptions options{.batch = 1000, .variety = 1, .alpha = 1.2, .key_range = 1000000};
  const auto ids = values_of<int64_t>(random_load_requests(dlrm(), options)[0].inputs[0]);
  const auto small = std::count_if(ids.begin(), ids.end(), [](int64_t id) { return id < 100; });
  EXPECT_GT(small, 1500);
  EXPECT_LT(small, 2700);
  for (const int64_t id : ids) {
    EXPECT_GE(id, 0);
    EXPECT_LT(id, 1000000);
  }
}

TEST(LoadInput, VariableShapesMustBeGiven) {
  ModelMetadata model = dlrm();
  model.inputs[0].shape = {-1, -1};
  EXPECT_THAT(error_of([&] { random_load_requests(model, {}); }), HasSubstr("--shape ids:1"));
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{1, 26}, {26}}) {
    const auto requests = random_load_requests(model, {.batch = 2, .shapes = {{"ids", shape}}});
    EXPECT_THAT(requests[0].inputs[0].shape, ElementsAre(2, 26));
  }
  EXPECT_THAT(error_of([&] {
                random_load_requests(dlrm(), {.shapes = {{"ids", {1, 4}}}});
              }),
              HasSubstr("the model's is [-1,3]"));
  EXPECT_THAT(error_of([&] {
                make_load_requests(dlrm(), {.shapes = {{"keys", {1}}}});
              }),
              HasSubstr("--shape names keys"));
  EXPECT_EQ(parse_shape_option("a:b:1,26"),
            std::make_pair(std::string("a:b"), std::vector<int64_t>{1, 26}));
  EXPECT_THAT(error_of([] { parse_shape_option("ids"); }), HasSubstr("NAME:SIZE"));
}

TEST(LoadInput, ReadsFilesOfPerfAnalyzer) {
  const std::string json = R"({"data": [
    {"ids": [1, 2, 3], "dense": {"content": [0.5, 1.5], "shape": [2]}},
    {"ids": [[4, 5, 6]], "dense": {"b64": "AAAAQAAAQEA="}},
    {"ids": {"content": [7, 8, 9], "shape": [1, 3]}, "dense": [4, 5]}]})";
  const auto single = read_load_requests(json, "1.json", dlrm(), {});
  ASSERT_EQ(single.size(), 3u);
  EXPECT_THAT(values_of<int64_t>(single[1].inputs[0]), ElementsAre(4, 5, 6));
  EXPECT_THAT(values_of<float>(single[1].inputs[1]), ElementsAre(2, 3));

  const auto pairs = read_load_requests(json, "1.json", dlrm(), {.batch = 2});
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_THAT(pairs[0].inputs[0].shape, ElementsAre(2, 3));
  EXPECT_THAT(values_of<int64_t>(pairs[0].inputs[0]), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(values_of<float>(pairs[1].inputs[1]), ElementsAre(4, 5, 0.5, 1.5));
}

TEST(LoadInput, ErrorsInFilesNameTheEntryAndTheInput) {
  const auto refusal = [](const std::string& json) {
    return error_of([&] { read_load_requests(json, "1.json", dlrm(), {}); });
  };
  EXPECT_THAT(refusal("{"), HasSubstr("1.json is not JSON"));
  EXPECT_THAT(refusal("{}"), HasSubstr("no list \"data\""));
  EXPECT_THAT(refusal(R"({"data": []})"), HasSubstr("no entries"));
  EXPECT_THAT(refusal(R"({"data": [3]})"), HasSubstr("data[0] is not an object"));
  EXPECT_THAT(refusal(R"({"data": [{"key": [1]}]})"),
              AllOf(HasSubstr("\"key\""), HasSubstr("not an input of model dlrm")));
  EXPECT_THAT(refusal(R"({"data": [{"ids": [1, 2]}]})"),
              AllOf(HasSubstr("data[0].ids has 2 values"), HasSubstr("needs 3")));
  EXPECT_THAT(refusal(R"({"data": [{"ids": [1, 2, 0.5]}]})"), HasSubstr("not an integer"));
  EXPECT_THAT(refusal(R"({"data": [{"dense": ["a", 1]}]})"), HasSubstr("expected a number"));
  EXPECT_THAT(refusal(R"({"data": [{"dense": {"b64": "AAAA"}}]})"), HasSubstr("has 3 bytes"));
  EXPECT_THAT(refusal(R"({"data": [{"dense": {"b64": "=?"}}]})"), HasSubstr("data[0].dense"));
  EXPECT_THAT(refusal(R"({"data": [{"dense": {"shape": [2]}}]})"), HasSubstr("neither"));
}

TEST(LoadInput, AnswersAreCheckedAgainstTheMetadata) {
  const std::vector<std::byte> two(8), three(12);
  const auto problem = [](OutputTensor output, int64_t rows) {
    return problem_with({{std::move(output)}}, dlrm(), rows);
  };
  EXPECT_EQ(problem({"score", DataType::kFp32, {2, 1}, two}, 2), "");
  EXPECT_THAT(problem({"score", DataType::kFp32, {3, 1}, three}, 2), HasSubstr("[3,1]"));
  EXPECT_THAT(problem({"score", DataType::kInt32, {2, 1}, two}, 2), HasSubstr("INT32"));
  EXPECT_THAT(problem({"score", DataType::kFp32, {2}, two}, 2), HasSubstr("expected"));
  EXPECT_THAT(problem({"score", DataType::kFp32, {2, 1}, three}, 2), HasSubstr("12 bytes"));
  EXPECT_THAT(problem({"other", DataType::kFp32, {2, 1}, two}, 2), HasSubstr("unknown output"));
  EXPECT_EQ(problem_with({}, dlrm(), 1), "has no outputs");
}

TEST(LoadTarget, AddressesHaveManyForms) {
  const auto is = [](const std::string& url, const std::string& host, const std::string& port) {
    const HostAndPort parts = parse_url(url, "8000");
    return parts.host == host && parts.port == port;
  };
  EXPECT_TRUE(is("", "localhost", "8000"));
  EXPECT_TRUE(is("server", "server", "8000"));
  EXPECT_TRUE(is("server:81", "server", "81"));
  EXPECT_TRUE(is("http://server:81/", "server", "81"));
  EXPECT_TRUE(is("[::1]:81", "::1", "81"));
  EXPECT_TRUE(is("[::1]", "::1", "8000"));
  for (const char* bad : {"server:", "server:x", "server:81/v2", ":81", "server:123456"})
    EXPECT_THAT(error_of([&] { parse_url(bad, "8000"); }), HasSubstr("host:port")) << bad;
  EXPECT_THAT(error_of([] { parse_url("https://server", "8000"); }), HasSubstr("TLS"));
}

}  // namespace
}  // namespace emblem
