#include "bench/load/target.h"

#include <algorithm>

namespace emblem {

ServerCounts operator-(const ServerCounts& after, const ServerCounts& before) {
  const auto minus = [](const DurationCount& a, const DurationCount& b) {
    return DurationCount{a.count - b.count, a.ns - b.ns};
  };
  return {after.rows - before.rows,
          after.executions - before.executions,
          minus(after.success, before.success),
          minus(after.queue, before.queue),
          minus(after.compute_input, before.compute_input),
          minus(after.compute_infer, before.compute_infer),
          minus(after.compute_output, before.compute_output)};
}

HostAndPort parse_url(const std::string& url, const std::string& usual_port) {
  std::string rest = url.empty() ? "localhost" : url;
  EMBLEM_REQUIRE(!rest.starts_with("https://"), "--url ", url,
                 " requires TLS, which the load generator does not support; use http://");
  for (const char* scheme : {"http://", "grpc://"}) {
    if (rest.starts_with(scheme)) rest = rest.substr(std::string(scheme).size());
  }
  while (rest.ends_with('/')) rest.pop_back();
  HostAndPort parts{rest, usual_port};
  const bool is_v6 = rest.starts_with('[');
  const size_t host_end = is_v6 ? rest.find(']') : rest.find(':');
  if (is_v6 && host_end != std::string::npos) {
    parts.host = rest.substr(1, host_end - 1);
    if (host_end + 1 < rest.size() && rest[host_end + 1] == ':')
      parts.port = rest.substr(host_end + 2);
  } else if (!is_v6 && host_end != std::string::npos) {
    parts.host = rest.substr(0, host_end);
    parts.port = rest.substr(host_end + 1);
  }
  const bool is_number = !parts.port.empty() && parts.port.size() <= 5 &&
                         std::all_of(parts.port.begin(), parts.port.end(),
                                     [](char c) { return c >= '0' && c <= '9'; });
  EMBLEM_REQUIRE(!parts.host.empty() && is_number && rest.find('/') == std::string::npos, "--url ",
                 url, " is not an address; expected host:port, e.g. localhost:", usual_port);
  return parts;
}

std::unique_ptr<LoadTarget> open_target(const LoadTargetOptions& options) {
  EMBLEM_REQUIRE(!options.model.empty(),
                 "--model is missing; expected the name of a model on the server");
  return options.protocol == LoadProtocol::kHttp ? open_http_target(options)
                                                 : open_grpc_target(options);
}

}  // namespace emblem
