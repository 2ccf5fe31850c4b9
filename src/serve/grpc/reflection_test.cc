#include "serve/grpc/reflection.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.pb.h>

#include "serve/grpc/reflection.grpc.pb.h"
#include "serve/grpc/test_server_test.h"

namespace emblem {
namespace {

using grpc::reflection::v1::ServerReflection;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;
using testing::IsSupersetOf;

TEST(GrpcReflection, TellsServicesAndTheirFiles) {
  GrpcTestServer test;
  const auto stub = ServerReflection::NewStub(test.channel);
  grpc::ClientContext context;
  const auto stream = stub->ServerReflectionInfo(&context);
  const auto ask = [&](const ServerReflectionRequest& request) {
    ServerReflectionResponse response;
    EXPECT_TRUE(stream->Write(request));
    EXPECT_TRUE(stream->Read(&response));
    return response;
  };
  ServerReflectionRequest request;
  request.set_list_services("");
  std::vector<std::string> services;
  const ServerReflectionResponse listed = ask(request);
  for (const auto& service : listed.list_services_response().service())
    services.push_back(service.name());
  EXPECT_THAT(services, IsSupersetOf({"inference.GRPCInferenceService", "grpc.health.v1.Health",
                                      "grpc.reflection.v1.ServerReflection"}));

  std::vector<std::string> files;
  for (const std::string& service : services) {
    request.set_file_containing_symbol(service);
    const auto response = ask(request);
    for (const std::string& bytes : response.file_descriptor_response().file_descriptor_proto()) {
      google::protobuf::FileDescriptorProto file;
      ASSERT_TRUE(file.ParseFromString(bytes));
      files.push_back(file.name());
    }
  }
  // With what they import.
  EXPECT_THAT(files, IsSupersetOf({"serve/grpc/service.proto", "serve/protocol/model_config.proto",
                                   "serve/grpc/health.proto"}));
  request.set_file_by_filename("serve/grpc/service.proto");
  EXPECT_EQ(ask(request).file_descriptor_response().file_descriptor_proto_size(), 2);

  request.set_file_containing_symbol("no.Such");
  EXPECT_EQ(ask(request).error_response().error_code(), grpc::StatusCode::NOT_FOUND);
  request.set_all_extension_numbers_of_type("inference.ModelInferRequest");
  EXPECT_EQ(ask(request).error_response().error_code(), grpc::StatusCode::NOT_FOUND);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(GrpcReflection, ShowsNothingElseOfTheProgram) {
  ServerReflectionRequest request;
  request.set_file_containing_symbol("google.protobuf.FileDescriptorProto");
  EXPECT_EQ(reflect(request).error_response().error_code(), grpc::StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace emblem
