#include "serve/grpc/messages.h"

#include <gmock/gmock.h>

#include <cstring>

namespace emblem {
namespace {

using inference::ModelInferRequest;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using Message = std::shared_ptr<ModelInferRequest>;

ModelInferRequest::InferInputTensor& add_tensor(ModelInferRequest& request, const char* name,
                                                const char* type, std::vector<int64_t> shape) {
  auto* input = request.add_inputs();
  input->set_name(name);
  input->set_datatype(type);
  for (const int64_t size : shape) input->add_shape(size);
  return *input;
}

Message one_raw_input() {
  auto message = std::make_shared<ModelInferRequest>();
  message->set_model_name("m");
  add_tensor(*message, "A", "FP32", {1, 2});
  message->add_raw_input_contents(std::string(8, 'x'));
  return message;
}

std::string refusal(const Message& message, ErrorCode code = ErrorCode::kInvalidArgument) {
  const SharedMemoryRegions regions;
  try {
    decode_infer(message, regions);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "accepted";
}

template <class T>
std::vector<T> values_of(const InputTensor& input) {
  std::vector<T> values(input.data.size() / sizeof(T));
  std::memcpy(values.data(), input.data.data(), input.data.size());
  return values;
}

TEST(GrpcMessages, RawContentsAreUsedWhereTheyLieAndKeptByTheRequest) {
  const SharedMemoryRegions regions;
  Message message = one_raw_input();
  const void* where = message->raw_input_contents(0).data();
  const std::weak_ptr<ModelInferRequest> observed = message;
  DecodedInfer decoded = decode_infer(std::move(message), regions);
  EXPECT_EQ(decoded.request->inputs.at(0).data.data(), where);
  EXPECT_FALSE(observed.expired());
  decoded.request.reset();
  EXPECT_TRUE(observed.expired());
}

TEST(GrpcMessages, EveryTypedFieldBecomesRawBytes) {
  auto message = std::make_shared<ModelInferRequest>();
  add_tensor(*message, "BOOL", "BOOL", {2}).mutable_contents()->add_bool_contents(true);
  message->mutable_inputs(0)->mutable_contents()->add_bool_contents(false);
  add_tensor(*message, "I8", "INT8", {1}).mutable_contents()->add_int_contents(-128);
  add_tensor(*message, "I16", "INT16", {1}).mutable_contents()->add_int_contents(-32768);
  add_tensor(*message, "I32", "INT32", {1}).mutable_contents()->add_int_contents(-7);
  add_tensor(*message, "I64", "INT64", {1}).mutable_contents()->add_int64_contents(INT64_MIN);
  add_tensor(*message, "U8", "UINT8", {1}).mutable_contents()->add_uint_contents(255);
  add_tensor(*message, "U16", "UINT16", {1}).mutable_contents()->add_uint_contents(65535);
  add_tensor(*message, "U32", "UINT32", {1}).mutable_contents()->add_uint_contents(4000000000u);
  add_tensor(*message, "U64", "UINT64", {1}).mutable_contents()->add_uint64_contents(UINT64_MAX);
  add_tensor(*message, "F32", "FP32", {1}).mutable_contents()->add_fp32_contents(1.5f);
  add_tensor(*message, "F64", "FP64", {1}).mutable_contents()->add_fp64_contents(2.5);
  add_tensor(*message, "S", "BYTES", {1}).mutable_contents()->add_bytes_contents("abc");
  add_tensor(*message, "NONE", "FP32", {0, 4});
  const SharedMemoryRegions regions;
  const DecodedInfer decoded = decode_infer(message, regions);
  const std::vector<InputTensor>& inputs = decoded.request->inputs;
  ASSERT_EQ(inputs.size(), 13u);
  EXPECT_THAT(values_of<uint8_t>(inputs[0]), ElementsAre(1, 0));
  EXPECT_THAT(values_of<int8_t>(inputs[1]), ElementsAre(-128));
  EXPECT_THAT(values_of<int16_t>(inputs[2]), ElementsAre(-32768));
  EXPECT_THAT(values_of<int32_t>(inputs[3]), ElementsAre(-7));
  EXPECT_THAT(values_of<int64_t>(inputs[4]), ElementsAre(INT64_MIN));
  EXPECT_THAT(values_of<uint8_t>(inputs[5]), ElementsAre(255));
  EXPECT_THAT(values_of<uint16_t>(inputs[6]), ElementsAre(65535));
  EXPECT_THAT(values_of<uint32_t>(inputs[7]), ElementsAre(4000000000u));
  EXPECT_THAT(values_of<uint64_t>(inputs[8]), ElementsAre(UINT64_MAX));
  EXPECT_THAT(values_of<float>(inputs[9]), ElementsAre(1.5f));
  EXPECT_THAT(values_of<double>(inputs[10]), ElementsAre(2.5));
  EXPECT_THAT(values_of<char>(inputs[11]), ElementsAre(3, 0, 0, 0, 'a', 'b', 'c'));
  EXPECT_TRUE(inputs[12].data.empty());
}

TEST(GrpcMessages, ParametersReachTheRequest) {
  const SharedMemoryRegions regions;
  Message message = one_raw_input();
  auto& parameters = *message->mutable_parameters();
  parameters["priority"].set_uint64_param(3);
  parameters["timeout"].set_int64_param(2500);
  parameters["sequence_id"].set_int64_param(0);
  parameters["sequence_start"].set_bool_param(false);
  parameters["top_k"].set_int64_param(7);
  parameters["filter"].set_string_param("new,cheap");
  parameters["probes"].set_int64_param(5);
  parameters["then_rank"].set_string_param("r");
  parameters["candidates"].set_uint64_param(70);
  parameters["rank_output"].set_string_param("p");
  parameters["triton_enable_empty_final_response"].set_bool_param(true);
  parameters["binary_data_output"].set_bool_param(true);
  parameters["content_type"].set_string_param("np");
  (*message->mutable_inputs(0)->mutable_parameters())["binary_data_size"].set_int64_param(8);
  message->add_outputs()->set_name("OUT");
  auto& classes = *message->mutable_outputs(0)->mutable_parameters();
  classes["classification"].set_int64_param(2);
  const DecodedInfer decoded = decode_infer(message, regions);
  EXPECT_EQ(decoded.request->priority, 3u);
  EXPECT_EQ(decoded.request->timeout_us, 2500u);
  EXPECT_EQ(decoded.request->top_k, 7);
  EXPECT_EQ(decoded.request->filter, "new,cheap");
  EXPECT_EQ(decoded.request->probes, 5);
  EXPECT_EQ(decoded.request->then_rank, "r");
  EXPECT_EQ(decoded.request->candidates, 70);
  EXPECT_EQ(decoded.request->rank_output, "p");
  EXPECT_FALSE(decoded.change);
  EXPECT_TRUE(decoded.marks_final_response);
  EXPECT_EQ(decoded.request->outputs.at(0).classes, 2);
}

TEST(GrpcMessages, WhatContradictsItselfIsRefused) {
  Message m = one_raw_input();
  m->set_raw_input_contents(0, std::string(7, 'x'));
  EXPECT_THAT(refusal(m), AllOf(HasSubstr("input A has 7 bytes"), HasSubstr("needs 8")));

  m = one_raw_input();
  m->add_raw_input_contents("xxxx");
  EXPECT_THAT(refusal(m), HasSubstr("2 raw_input_contents for 1 inputs"));

  m = one_raw_input();
  add_tensor(*m, "B", "FP32", {1});
  EXPECT_THAT(refusal(m), HasSubstr("1 raw_input_contents for 2 inputs"));

  m = one_raw_input();
  m->mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  EXPECT_THAT(refusal(m), HasSubstr("raw_input_contents too"));

  m = one_raw_input();
  m->clear_raw_input_contents();
  EXPECT_THAT(refusal(m), HasSubstr("input A has no data"));

  m->mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  EXPECT_THAT(refusal(m), HasSubstr("needs 2 elements in fp32_contents"));

  m->mutable_inputs(0)->mutable_contents()->add_fp32_contents(2);
  m->mutable_inputs(0)->mutable_contents()->add_int64_contents(2);
  EXPECT_THAT(refusal(m), HasSubstr("none elsewhere"));

  m = one_raw_input();
  m->mutable_inputs(0)->set_shape(0, -1);
  EXPECT_THAT(refusal(m), HasSubstr("negative"));

  m = one_raw_input();
  m->mutable_inputs(0)->set_shape(0, INT64_MAX);
  EXPECT_THAT(refusal(m), HasSubstr("2^40"));

  m = one_raw_input();
  m->mutable_inputs(0)->set_datatype("FLOAT");
  EXPECT_THAT(refusal(m), HasSubstr("unknown datatype \"FLOAT\""));

  m = std::make_shared<ModelInferRequest>();
  add_tensor(*m, "H", "FP16", {1}).mutable_contents()->add_fp32_contents(1);
  EXPECT_THAT(refusal(m), HasSubstr("FP16 has no form in contents"));

  m = std::make_shared<ModelInferRequest>();
  add_tensor(*m, "I", "INT8", {1}).mutable_contents()->add_int_contents(128);
  EXPECT_THAT(refusal(m), HasSubstr("the value 128"));

  m = std::make_shared<ModelInferRequest>();
  add_tensor(*m, "S", "BYTES", {1});
  m->add_raw_input_contents(std::string("\x08\0\0\0abc", 7));
  EXPECT_THAT(refusal(m), HasSubstr("cut off"));
}

TEST(GrpcMessages, BadParametersAreRefused) {
  const auto with = [](const char* name, auto set, ErrorCode code = ErrorCode::kInvalidArgument) {
    Message message = one_raw_input();
    set((*message->mutable_parameters())[name]);
    return refusal(message, code);
  };
  const auto no_state = [&](const char* name, auto set) {
    EXPECT_THAT(with(name, set, ErrorCode::kUnsupported), HasSubstr("no state"));
  };
  no_state("sequence_id", [](auto& p) { p.set_uint64_param(1); });
  no_state("sequence_id", [](auto& p) { p.set_string_param("a"); });
  no_state("sequence_end", [](auto& p) { p.set_bool_param(true); });
  EXPECT_THAT(with("triton_other", [](auto& p) { p.set_bool_param(true); }), HasSubstr("unknown"));
  EXPECT_THAT(with("priority", [](auto& p) { p.set_int64_param(-1); }), HasSubstr("at least 0"));
  EXPECT_THAT(with("timeout", [](auto& p) { p.set_string_param("5"); }), HasSubstr("whole number"));
  EXPECT_THAT(with("top_k", [](auto& p) { p.set_string_param("5"); }), HasSubstr("whole number"));
  EXPECT_THAT(with("filter", [](auto& p) { p.set_bool_param(true); }), HasSubstr("string_param"));
  EXPECT_THAT(with("probes", [](auto& p) { p.set_int64_param(-1); }), HasSubstr("at least 0"));
  EXPECT_THAT(with("then_rank", [](auto& p) { p.set_int64_param(1); }), HasSubstr("string_param"));
  EXPECT_THAT(with("change_items", [](auto& p) { p.set_string_param("add"); }),
              HasSubstr("is \"add\", expected put or remove"));
  EXPECT_THAT(with("triton_enable_empty_final_response", [](auto& p) { p.set_int64_param(1); }),
              HasSubstr("bool_param"));
}

TEST(GrpcMessages, UnknownParametersAreRefusedWithTheNearest) {
  Message m = one_raw_input();
  (*m->mutable_parameters())["top-k"].set_int64_param(5);
  EXPECT_THAT(refusal(m), HasSubstr("parameter \"top-k\" of the request is unknown; did you mean "
                                    "\"top_k\"? (known: priority, timeout, top_k, "));
  m = one_raw_input();
  (*m->mutable_inputs(0)->mutable_parameters())["shared_memory_regions"].set_string_param("r");
  EXPECT_THAT(refusal(m),
              HasSubstr("of input A is unknown; did you mean \"shared_memory_region\""));
  m = one_raw_input();
  m->add_outputs()->set_name("y");
  (*m->mutable_outputs(0)->mutable_parameters())["clasification"].set_int64_param(2);
  EXPECT_THAT(refusal(m), HasSubstr("of output y is unknown; did you mean \"classification\"?"));
  m = one_raw_input();
  (*m->mutable_parameters())["content_type"].set_string_param("base64");
  EXPECT_THAT(refusal(m), HasSubstr("expected np, pd or str"));
}

TEST(GrpcMessages, BadSharedMemoryIsRefused) {
  Message m = one_raw_input();
  m->clear_raw_input_contents();
  auto& input = *m->mutable_inputs(0)->mutable_parameters();
  input["shared_memory_byte_size"].set_int64_param(8);
  EXPECT_THAT(refusal(m), HasSubstr("no shared_memory_region"));
  input["shared_memory_region"].set_string_param("absent");
  EXPECT_THAT(refusal(m), HasSubstr("absent"));
  input["shared_memory_byte_size"].set_int64_param(-8);
  EXPECT_THAT(refusal(m), HasSubstr("at least 0"));
  input.erase("shared_memory_byte_size");
  EXPECT_THAT(refusal(m), HasSubstr("no shared_memory_byte_size"));

  m = one_raw_input();
  m->add_outputs()->set_name("OUT");
  auto& output = *m->mutable_outputs(0)->mutable_parameters();
  output["classification"].set_int64_param(0);
  EXPECT_THAT(refusal(m), HasSubstr("at least 1"));
  output["classification"].set_int64_param(1);
  output["shared_memory_region"].set_string_param("absent");
  output["shared_memory_byte_size"].set_int64_param(4);
  EXPECT_THAT(refusal(m), HasSubstr("cannot be classified and go to shared memory"));
}

}  // namespace
}  // namespace emblem
