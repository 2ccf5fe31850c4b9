// bench/load/target_kinds.h - the protocols of load_target.h, one file each.
#pragma once

#include "bench/load/target.h"

namespace emblem {

struct HostAndPort {
  std::string host, port;
};

// "host:port", "[::1]:8000", "host", with or without "http://". Throws for anything else.
HostAndPort parse_url(const std::string& url, const std::string& usual_port);

std::unique_ptr<LoadTarget> open_http_target(const LoadTargetOptions& options);
std::unique_ptr<LoadTarget> open_grpc_target(const LoadTargetOptions& options);

}  // namespace emblem
