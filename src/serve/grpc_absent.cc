// What builds without libnghttp2 have: a gRPC server that does not listen, with the port 0.
#include "serve/grpc/server.h"

namespace emblem {

struct GrpcServer::State {};

GrpcServer::GrpcServer(const GrpcServerOptions&, InferenceService&, SharedMemoryRegions&) {}
GrpcServer::~GrpcServer() = default;

uint16_t GrpcServer::port() const { return 0; }
size_t GrpcServer::connections() const { return 0; }
void GrpcServer::drain(std::chrono::milliseconds) {}

}  // namespace emblem
