#include "serve/http/api/infer.h"

#include <gmock/gmock.h>

#include <cstring>

#include "serve/http/message/body.h"
#include "serve/protocol/shared_object_test.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

HttpRequest http_request(const std::string& json, const std::string& binary = "",
                         bool with_header = true) {
  HttpRequest request;
  request.may_use_regions = true;
  HttpBodyBuffer buffer(json.size(), json.size() + binary.size(), nullptr);
  buffer.append(std::as_bytes(std::span(json)));
  buffer.append(std::as_bytes(std::span(binary)));
  const HttpBody body = buffer.take();
  request.body = body.bytes;
  request.memory = body.memory;
  if (with_header) request.json_bytes = json.size();
  return request;
}

InferCall read(const std::string& json, const std::string& binary = "") {
  static const SharedMemoryRegions kNoRegions;
  return read_infer_request(http_request(json, binary), "m", "3", kNoRegions);
}

void expect_refused(const std::string& json, const std::string& why,
                    const std::string& binary = "") {
  EXPECT_THAT([&] { read(json, binary); }, ThrowsMessage<Error>(HasSubstr(why))) << json;
}

template <class T>
std::vector<T> values(std::span<const std::byte> data) {
  std::vector<T> result(data.size() / sizeof(T));
  std::memcpy(result.data(), data.data(), data.size());
  return result;
}

std::string raw(std::initializer_list<float> numbers) {
  return {reinterpret_cast<const char*>(numbers.begin()), numbers.size() * sizeof(float)};
}

OutputTensor output(const std::string& name, std::initializer_list<float> numbers) {
  const auto bytes = std::as_bytes(std::span(numbers.begin(), numbers.size()));
  return {name,
          DataType::kFp32,
          {static_cast<int64_t>(numbers.size()), 1},
          {bytes.begin(), bytes.end()}};
}

TEST(ReadInferRequestTest, TakesJsonWithItsParameters) {
  const InferCall call = read(R"({"id":"x","inputs":[
      {"name":"A","shape":[1,2],"datatype":"FP32","data":[1,2.5]},
      {"data":[["u"]],"name":"S","parameters":null,"shape":[1,1],"datatype":"BYTES"}],
      "parameters":{"priority":3,"timeout":1500,"sequence_id":0,"content_type":"pd",
        "sequence_start":false,"sequence_end":false,"top_k":7,"filter":"new,cheap","probes":5,
        "then_rank":"r","candidates":70,"rank_output":"p"},
      "outputs":[{"name":"Y","parameters":{"classification":2}}],"model_name":"m"})");
  const InferRequest& request = *call.request;
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.version, "3");
  EXPECT_EQ(request.id, "x");
  EXPECT_EQ(request.priority, 3u);
  EXPECT_EQ(request.timeout_us, 1500u);
  EXPECT_EQ(request.top_k, 7);
  EXPECT_EQ(request.filter, "new,cheap");
  EXPECT_EQ(request.probes, 5);
  EXPECT_EQ(request.then_rank, "r");
  EXPECT_EQ(request.candidates, 70);
  EXPECT_EQ(request.rank_output, "p");
  ASSERT_EQ(request.inputs.size(), 2u);
  EXPECT_THAT(values<float>(request.inputs[0].data), ElementsAre(1, 2.5f));
  EXPECT_EQ(text_of(request.inputs[1].data), std::string_view("\x01\0\0\0u", 5));
  ASSERT_EQ(request.outputs.size(), 1u);
  EXPECT_EQ(request.outputs[0].name, "Y");
  EXPECT_EQ(request.outputs[0].classes, 2);
  EXPECT_FALSE(call.forms.named[0].binary);
}

TEST(ReadInferRequestTest, LeavesBinaryTensorsWhereTheyAre) {
  const std::string json =
      R"({"inputs":[{"name":"A","shape":[2],"datatype":"FP32","parameters":{"binary_data_size":8}},
      {"name":"B","shape":[1],"datatype":"FP32","parameters":{"binary_data_size":4}},
      {"name":"N","shape":[0],"datatype":"INT64","parameters":{"binary_data_size":0}}]})";
  const HttpRequest http = http_request(json, raw({1, 2, 3}));
  const InferCall call = read_infer_request(http, "m", "", SharedMemoryRegions());
  EXPECT_EQ(call.request->inputs[0].data.data(), http.body.data() + json.size());
  EXPECT_EQ(reinterpret_cast<size_t>(call.request->inputs[0].data.data()) % 64, 0u);
  EXPECT_THAT(values<float>(call.request->inputs[0].data), ElementsAre(1, 2));
  EXPECT_THAT(values<float>(call.request->inputs[1].data), ElementsAre(3));
  EXPECT_GT(http.memory.use_count(), 1) << "the request keeps the body";
}

TEST(ReadInferRequestTest, InputsOutliveTheBody) {
  std::unique_ptr<InferRequest> request;
  {
    request = read(R"({"inputs":[{"name":"A","shape":[1],"datatype":"INT64","data":[5]},
        {"name":"B","shape":[1],"datatype":"FP32","parameters":{"binary_data_size":4}}]})",
                   raw({6}))
                  .request;
  }
  EXPECT_THAT(values<int64_t>(request->inputs[0].data), ElementsAre(5));
  EXPECT_THAT(values<float>(request->inputs[1].data), ElementsAre(6));
}

TEST(ReadInferRequestTest, BinaryOutputsAreTheDefaultThatTheRequestSays) {
  const InferCall call = read(R"({"outputs":[{"name":"a"},{"name":"b","parameters":
      {"binary_data":false}}],"inputs":[],"parameters":{"binary_data_output":true}})");
  EXPECT_TRUE(call.forms.binary);
  EXPECT_TRUE(call.forms.named[0].binary);
  EXPECT_FALSE(call.forms.named[1].binary);
}

TEST(ReadInferRequestTest, RefusesMalformedRequestsByNamingWhatIsWrong) {
  expect_refused("", "JSON: expected an object at byte 0");
  expect_refused("[]", "expected an object");
  expect_refused("{}", "has no \"inputs\"");
  expect_refused(R"({"inputs":{}})", "expected an array");
  expect_refused(R"({"inputs":[],"inputs":[]})", "\"inputs\" twice");
  expect_refused(R"({"inputs":[]} x)", "nothing after the value");
  expect_refused(R"({"inputs":[{}]})", "an input has no \"name\"");
  expect_refused(R"({"inputs":[{"name":"A","shape":[1],"data":[1]}]})", "no \"datatype\"");
  expect_refused(R"({"inputs":[{"name":"A","datatype":"FP32","data":[1]}]})", "no \"shape\"");
  expect_refused(R"({"inputs":[{"name":"A","datatype":"FP31","shape":[1]}]})",
                 "unknown datatype FP31");
  expect_refused(R"({"inputs":[{"name":"A","datatype":"TYPE_FP32","shape":[1]}]})",
                 "unknown datatype");
  expect_refused(R"({"inputs":[{"name":"A","datatype":"FP32","shape":[1]}]})", "exactly one of");
  expect_refused(R"({"inputs":[{"name":"A","datatype":"FP32","shape":[-1],"data":[1]}]})",
                 "negative");
  expect_refused(R"({"inputs":[{"name":"A","datatype":"FP32","shape":[1],"shape":[1]}]})",
                 "two shapes");
  expect_refused(
      R"({"inputs":[{"name":"A","datatype":"FP32","shape":[9223372036854775807,4],"data":[1]}]})",
      "2^40");
  expect_refused(R"({"inputs":[],"id":7})", "expected a string");
  expect_refused(R"({"inputs":[],"outputs":[{}]})", "an output has no \"name\"");
  expect_refused(R"({"inputs":[],"outputs":[{"name":"y","parameters":{"classification":0}}]})",
                 "at least one class");
  expect_refused(R"({"inputs":[],"parameters":{"triton_final":true}})",
                 "parameter \"triton_final\" of the request is unknown");
  expect_refused(R"({"inputs":[],"parameters":{"sequence_id":7}})", "no state");
  expect_refused(R"({"inputs":[],"parameters":{"sequence_id":"s"}})", "no state");
  expect_refused(R"({"inputs":[],"parameters":{"sequence_start":true}})", "no state");
  expect_refused(R"({"inputs":[],"parameters":{"content_type":"base64"}})",
                 "expected np, pd or str");
  expect_refused(R"({"inputs":[],"parameters":{"priority":-1}})", "unsigned");
  expect_refused(R"({"inputs":[],"parameters":{"top_k":"ten"}})", "");
  expect_refused(R"({"inputs":[],"parameters":{"filter":1}})", "");
  expect_refused(R"({"inputs":[],"parameters":{"probes":1.5}})", "");
  expect_refused(R"({"inputs":[],"parameters":{"then_rank":true}})", "");
}

TEST(ReadInferRequestTest, RefusesUnknownNamesWithTheNearest) {
  expect_refused(R"({"inputs":[],"parameters":{"top-k":5}})",
                 "parameter \"top-k\" of the request is unknown; did you mean \"top_k\"? (known: "
                 "priority, timeout, top_k, filter, probes, then_rank, ");
  expect_refused(R"({"inputs":[],"parameters":{"of_the_client_itself":1}})",
                 "\"of_the_client_itself\" of the request is unknown (known: priority, ");
  expect_refused(R"({"inputs":[],"parameter":{"top_k":5}})",
                 "member \"parameter\" of the request is unknown; did you mean \"parameters\"?");
  expect_refused(R"({"inputs":[{"name":"A","data_type":"FP32"}]})",
                 "member \"data_type\" of input A is unknown; did you mean \"datatype\"?");
  expect_refused(R"({"inputs":[{"name":"A","parameters":{"binary_size":8}}]})",
                 "of input A is unknown; did you mean \"binary_data_size\"?");
  expect_refused(R"({"inputs":[],"outputs":[{"name":"y","parameters":{"clasification":2}}]})",
                 "of output y is unknown; did you mean \"classification\"?");
  expect_refused(R"({"inputs":[],"outputs":[{"name":"y","classification":2}]})",
                 "member \"classification\" of output y is unknown");
  expect_refused(R"({"inputs":[],"parameters":{")" + std::string(5000, 'x') + R"(":1}})",
                 "has 5000 bytes");
}

TEST(ReadInferRequestTest, RefusesBinarySectionsOfTheWrongSize) {
  const std::string json =
      R"({"inputs":[{"name":"A","shape":[2],"datatype":"FP32","parameters":{"binary_data_size":8}}]})";
  expect_refused(json, "claims 8 bytes of binary data, but only 4 are left", raw({1}));
  expect_refused(json, "4 bytes after its JSON that no input", raw({1, 2, 3}));
  expect_refused(
      R"({"inputs":[{"name":"A","shape":[3],"datatype":"FP32","parameters":{"binary_data_size":8}}]})",
      "input A has 8 bytes; FP32 [3] needs 12", raw({1, 2}));
  expect_refused(R"({"inputs":[{"name":"A","shape":[1],"datatype":"FP32","data":[1],
      "parameters":{"binary_data_size":4}}]})",
                 "exactly one of", raw({1}));
  expect_refused(
      R"({"inputs":[{"name":"A","shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":8}}]})",
      "cut off", std::string("\xFF\0\0\0abcd", 8));
  HttpRequest http = http_request("{}");
  http.json_bytes = 3;
  EXPECT_THAT([&] { read_infer_request(http, "m", "", SharedMemoryRegions()); },
              ThrowsMessage<Error>(HasSubstr("Inference-Header-Content-Length is 3")));
  EXPECT_THAT(
      [&] {
        read_infer_request(http_request(json, raw({1, 2}), false), "m", "", SharedMemoryRegions());
      },
      ThrowsMessage<Error>(HasSubstr("claims 8 bytes of binary data, but only 0")));
}

TEST(SharedMemoryInferTest, ReadsInputsAndWritesOutputsThere) {
  SharedObject object(4096);
  const float numbers[] = {1, 2};
  std::memcpy(object.bytes().data() + 100, numbers, sizeof(numbers));
  SharedMemoryRegions regions{{.allowed_prefixes = {""}}};
  regions.register_system({"r", object.key(), 0, 4096});
  const HttpRequest http = http_request(R"({"inputs":[{"name":"A","shape":[2],"datatype":"FP32",
      "parameters":{"shared_memory_region":"r","shared_memory_byte_size":8,"shared_memory_offset":100}}],
      "outputs":[{"name":"Y","parameters":{"shared_memory_region":"r","shared_memory_byte_size":8}}]})");
  const InferCall call = read_infer_request(http, "m", "", regions);
  EXPECT_THAT(values<float>(call.request->inputs[0].data), ElementsAre(1, 2));
  regions.unregister_system("r");
  const HttpResponse response =
      write_infer_response({"m", "1", "", {output("Y", {7, 8})}}, call.forms);
  EXPECT_EQ(
      response.body,
      R"({"model_name":"m","model_version":"1","outputs":[{"name":"Y","datatype":"FP32","shape":[2,1]}]})");
  EXPECT_TRUE(response.tensors.empty());
  EXPECT_TRUE(response.headers.empty());
  EXPECT_THAT(values<float>(object.bytes().first(8)), ElementsAre(7, 8));
  EXPECT_THAT(
      [&] {
        write_infer_response({"m", "1", "", {output("Y", {7, 8, 9})}}, call.forms);
      },
      ThrowsMessage<Error>(HasSubstr("12 bytes, which do not fit into the 8 bytes")));
}

TEST(SharedMemoryInferTest, RefusesRegionsOutOfRange) {
  SharedObject object(4096);
  SharedMemoryRegions regions{{.allowed_prefixes = {""}}};
  regions.register_system({"r", object.key(), 0, 64});
  const auto refused = [&](const std::string& parameters, const char* why) {
    EXPECT_THAT(
        [&] {
          read_infer_request(
              http_request(
                  R"({"inputs":[{"name":"A","shape":[2],"datatype":"FP32","parameters":{)" +
                  parameters + "}}]}"),
              "m", "", regions);
        },
        ThrowsMessage<Error>(HasSubstr(why)))
        << parameters;
  };
  refused(R"("shared_memory_region":"r")", "without shared_memory_byte_size");
  refused(R"("shared_memory_region":"q","shared_memory_byte_size":8)", "no shared memory region q");
  refused(R"("shared_memory_region":"r","shared_memory_byte_size":8,"shared_memory_offset":60)",
          "out of range");
  refused(
      R"("shared_memory_region":"r","shared_memory_byte_size":8,"shared_memory_offset":18446744073709551615)",
      "out of range");
  refused(R"("shared_memory_region":"r","shared_memory_byte_size":12)", "needs 8");
}

TEST(WriteInferResponseTest, WritesJsonOrBinaryAsAsked) {
  OutputForms forms;
  forms.named = {{"a", true, {}}, {"b", false, {}}};
  const HttpResponse response =
      write_infer_response({"m", "2", "id\"", {output("b", {0.1f}), output("a", {1, 2})}}, forms);
  EXPECT_EQ(
      response.body,
      R"({"id":"id\"","model_name":"m","model_version":"2","outputs":[)"
      R"({"name":"b","datatype":"FP32","shape":[1,1],"data":[0.1]},)"
      R"({"name":"a","datatype":"FP32","shape":[2,1],"parameters":{"binary_data_size":8}}]})");
  ASSERT_EQ(response.tensors.size(), 1u);
  EXPECT_THAT(values<float>(response.tensors[0]), ElementsAre(1, 2));
  EXPECT_STREQ(response.content_type, "application/octet-stream");
  ASSERT_EQ(response.headers.size(), 1u);
  EXPECT_STREQ(response.headers[0].first, "Inference-Header-Content-Length");
  EXPECT_EQ(response.headers[0].second, std::to_string(response.body.size()));
}

TEST(ReadInferRequestTest, DecodedValuesCountInTheMemoryBudget) {
  // Two bytes of JSON become eight.
  std::string zeros = "0";
  for (int i = 1; i < 1000; ++i) zeros += ",0";
  HttpRequest request = http_request(
      R"({"inputs":[{"name":"x","shape":[1000],"datatype":"INT64","data":[)" + zeros + "]}]}");
  MemoryBudget small(8000), enough(9000);  // with what an input takes
  const SharedMemoryRegions regions;
  request.memory_budget = &small;
  EXPECT_THAT([&] { read_infer_request(request, "m", "1", regions); },
              ThrowsMessage<Error>(HasSubstr("--max-memory")));
  EXPECT_EQ(small.used(), 0u);
  request.memory_budget = &enough;
  InferCall call = read_infer_request(request, "m", "1", regions);
  EXPECT_GE(enough.used(), 8000u);
  call.request.reset();
  EXPECT_EQ(enough.used(), 0u);
}

TEST(ReadInferRequestTest, RefusesLongShapesAndNamesBeforeTheyAreKept) {
  std::string shape = "1";
  for (int i = 0; i < 32; ++i) shape += ",1";
  expect_refused(
      R"({"inputs":[{"name":"a","datatype":"FP32","shape":[)" + shape + R"(],"data":[1]}]})",
      "input a has more than 32 dimensions");
  const std::string name(5000, 'n');
  expect_refused(R"({"inputs":[{"name":")" + name + R"("}]})", "a string of at most 4096 bytes");
  expect_refused(R"({"inputs":[],"outputs":[{"name":")" + name + R"("}]})",
                 "a string of at most 4096 bytes");
}

TEST(ReadInferRequestTest, InputsAndOutputsAreTakenFromTheBudget) {
  static const SharedMemoryRegions kNoRegions;
  std::string outputs = R"({"name":"a"})";
  for (int i = 0; i < 1000; ++i) outputs += R"(,{"name":"a"})";
  MemoryBudget budget(100'000);
  HttpRequest request = http_request(R"({"inputs":[],"outputs":[)" + outputs + "]}");
  request.memory_budget = &budget;
  EXPECT_THAT([&] { read_infer_request(request, "m", "1", kNoRegions); },
              ThrowsMessage<Error>(HasSubstr("--max-memory")));
  EXPECT_EQ(budget.used(), 0u);
  MemoryBudget enough(10'000'000);
  request.memory_budget = &enough;
  {
    const InferCall call = read_infer_request(request, "m", "1", kNoRegions);
    EXPECT_GE(enough.used(), 1001 * (sizeof(OutputForm) + sizeof(RequestedOutput)));
  }
  EXPECT_EQ(enough.used(), 0u);
}

}  // namespace
}  // namespace emblem
