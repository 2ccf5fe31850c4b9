#include "serve/grpc/reflection.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <set>
#include <string>

#include "emblem/error.h"
#include "serve/grpc/health.pb.h"
#include "serve/grpc/service.pb.h"
#include "serve/protocol/status.h"

namespace emblem {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;
using Files = std::set<const FileDescriptor*>;

// A file after those that it imports.
void add_with_imports(const FileDescriptor* file, Files& seen,
                      grpc::reflection::v1::FileDescriptorResponse* to) {
  if (!seen.insert(file).second) return;
  for (int i = 0; i < file->dependency_count(); ++i)
    add_with_imports(file->dependency(i), seen, to);
  if (to == nullptr) return;
  google::protobuf::FileDescriptorProto proto;
  file->CopyTo(&proto);
  to->add_file_descriptor_proto(proto.SerializeAsString());
}

const std::vector<const FileDescriptor*>& service_files() {
  static const std::vector<const FileDescriptor*> files = {
      inference::ModelInferRequest::descriptor()->file(),
      grpc::health::v1::HealthCheckRequest::descriptor()->file(),
      ServerReflectionRequest::descriptor()->file()};
  return files;
}

// Only files of the services: the program has messages of its own, too.
const FileDescriptor* of_services(const FileDescriptor* file) {
  static const Files all = [] {
    Files found;
    for (const FileDescriptor* one : service_files()) add_with_imports(one, found, nullptr);
    return found;
  }();
  return all.count(file) > 0 ? file : nullptr;
}

void answer_with(const FileDescriptor* file, const std::string& wanted,
                 ServerReflectionResponse& to) {
  if (of_services(file) == nullptr) {
    to.mutable_error_response()->set_error_code(grpc_status(ErrorCode::kNotFound));
    to.mutable_error_response()->set_error_message(cat("there is no ", wanted));
    return;
  }
  Files seen;
  add_with_imports(file, seen, to.mutable_file_descriptor_response());
}

void list_services(ServerReflectionResponse& to) {
  for (const FileDescriptor* file : service_files()) {
    for (int i = 0; i < file->service_count(); ++i)
      to.mutable_list_services_response()->add_service()->set_name(file->service(i)->full_name());
  }
}

}  // namespace

ServerReflectionResponse reflect(const ServerReflectionRequest& request) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      answer_with(pool.FindFileByName(request.file_by_filename()),
                  "file " + request.file_by_filename(), response);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      answer_with(pool.FindFileContainingSymbol(request.file_containing_symbol()),
                  "symbol " + request.file_containing_symbol(), response);
      break;
    case ServerReflectionRequest::kListServices:
      list_services(response);
      break;
    case ServerReflectionRequest::kFileContainingExtension:
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      answer_with(nullptr, "extension: messages here have none", response);
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      response.mutable_error_response()->set_error_code(grpc_status(ErrorCode::kInvalidArgument));
      response.mutable_error_response()->set_error_message("the request asks for nothing");
      break;
  }
  return response;
}

}  // namespace emblem
