// serve/grpc/test_server_test.h - a gRPC server with a FakeService and a client of it, for tests.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/threads/becomes_true_test.h"
#include "serve/grpc/health.grpc.pb.h"
#include "serve/grpc/server.h"
#include "serve/grpc/service.grpc.pb.h"
#include "serve/protocol/fake_service_test.h"

namespace emblem {

using Stub = inference::GRPCInferenceService::Stub;
using inference::ModelInferRequest;
using inference::ModelInferResponse;

struct GrpcTestServer {
  explicit GrpcTestServer(GrpcServerOptions options = {}) {
    options.address = "127.0.0.1";
    server = std::make_unique<GrpcServer>(options, service, regions);
    channel = new_channel();
    stub = inference::GRPCInferenceService::NewStub(channel);
    health = grpc::health::v1::Health::NewStub(channel);
  }
  // Held requests would keep the server from ending.
  ~GrpcTestServer() {
    service.release();
    server.reset();
  }

  // Each with a connection of its own.
  std::shared_ptr<grpc::Channel> new_channel(
      const std::shared_ptr<grpc::ChannelCredentials>& credentials =
          grpc::InsecureChannelCredentials()) const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxReceiveMessageSize(INT32_MAX);
    return grpc::CreateCustomChannel(cat("localhost:", server->port()), credentials, arguments);
  }

  FakeService service;
  SharedMemoryRegions regions{{.allowed_prefixes = {""}}};
  std::unique_ptr<GrpcServer> server;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<Stub> stub;
  std::unique_ptr<grpc::health::v1::Health::Stub> health;
};

template <class T>
std::string raw_bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

inline ModelInferRequest::InferInputTensor* add_input(ModelInferRequest& request, const char* name,
                                                      const char* type,
                                                      const std::vector<int64_t>& shape) {
  auto* input = request.add_inputs();
  input->set_name(name);
  input->set_datatype(type);
  for (const int64_t size : shape) input->add_shape(size);
  return input;
}

// One row of A in raw contents.
inline ModelInferRequest sum_request(const std::vector<float>& row, const std::string& id = "") {
  ModelInferRequest request;
  request.set_model_name("sum");
  request.set_id(id);
  add_input(request, "A", "FP32", {1, 4});
  request.add_raw_input_contents(raw_bytes(row));
  return request;
}

inline float first_float(const ModelInferResponse& response, int output = 0) {
  float value = -1;
  if (response.raw_output_contents_size() > output &&
      response.raw_output_contents(output).size() >= sizeof(value))
    std::memcpy(&value, response.raw_output_contents(output).data(), sizeof(value));
  return value;
}

}  // namespace emblem
