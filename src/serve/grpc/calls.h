// serve/grpc/calls.h - the answers to all calls of the protocol but inference itself. No gRPC here,
// only protobuf: the transport is in serve/grpc/server.h.
//
// Refusals are thrown as Error. Thread-safe.
#pragma once

#include <atomic>

#include "serve/grpc/health.pb.h"
#include "serve/grpc/service.pb.h"
#include "serve/protocol/inference_service.h"
#include "serve/protocol/shared_memory.h"

namespace emblem {

class GrpcCalls {
 public:
  GrpcCalls(InferenceService& service, SharedMemoryRegions& regions, bool has_shared_memory = true)
      : service_(service), regions_(regions), has_shared_memory_(has_shared_memory) {}

  // From now on the server says that it is not ready.
  void start_draining() { draining_ = true; }
  bool is_ready() const { return !draining_ && service_.is_ready(); }

  void answer(const inference::ServerLiveRequest&, inference::ServerLiveResponse& to) const;
  void answer(const inference::ServerReadyRequest&, inference::ServerReadyResponse& to) const;
  void answer(const inference::ServerMetadataRequest&, inference::ServerMetadataResponse& to) const;
  void answer(const grpc::health::v1::HealthCheckRequest& of,
              grpc::health::v1::HealthCheckResponse& to) const;
  void answer(const grpc::health::v1::HealthListRequest&,
              grpc::health::v1::HealthListResponse& to) const;

  void answer(const inference::ModelReadyRequest& of, inference::ModelReadyResponse& to) const;
  void answer(const inference::ModelMetadataRequest& of,
              inference::ModelMetadataResponse& to) const;
  void answer(const inference::ModelConfigRequest& of, inference::ModelConfigResponse& to) const;
  void answer(const inference::ModelStatisticsRequest& of,
              inference::ModelStatisticsResponse& to) const;

  void answer(const inference::RepositoryIndexRequest& of,
              inference::RepositoryIndexResponse& to) const;
  // These two may take as long as a model needs.
  void answer(const inference::RepositoryModelLoadRequest& of,
              inference::RepositoryModelLoadResponse&);
  void answer(const inference::RepositoryModelUnloadRequest& of,
              inference::RepositoryModelUnloadResponse&);

  void answer(const inference::SystemSharedMemoryStatusRequest& of,
              inference::SystemSharedMemoryStatusResponse& to) const;
  void answer(const inference::SystemSharedMemoryRegisterRequest& of,
              inference::SystemSharedMemoryRegisterResponse&);
  void answer(const inference::SystemSharedMemoryUnregisterRequest& of,
              inference::SystemSharedMemoryUnregisterResponse&);
  void answer(const inference::CudaSharedMemoryStatusRequest& of,
              inference::CudaSharedMemoryStatusResponse& to) const;
  void answer(const inference::CudaSharedMemoryRegisterRequest& of,
              inference::CudaSharedMemoryRegisterResponse&);
  void answer(const inference::CudaSharedMemoryUnregisterRequest& of,
              inference::CudaSharedMemoryUnregisterResponse&);

  void answer(const inference::TraceSettingRequest& of, inference::TraceSettingResponse& to) const;
  void answer(const inference::LogSettingsRequest& of, inference::LogSettingsResponse& to) const;

 private:
  InferenceService& service_;
  SharedMemoryRegions& regions_;
  const bool has_shared_memory_;
  std::atomic<bool> draining_ = false;
};

}  // namespace emblem
