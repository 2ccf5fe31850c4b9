#include "store/redis_store.h"

#include <charconv>

#include "core/text.h"

namespace emblem {

std::vector<RedisEndpoint> parse_redis_endpoints(std::string_view text) {
  std::vector<RedisEndpoint> endpoints;
  std::string commas(text);
  for (char& c : commas) c = c == ';' ? ',' : c;
  for (const std::string& item : split(commas, ',')) {
    const std::string_view part = trim(item);
    if (part.empty()) continue;
    const size_t colon = part.rfind(':');
    RedisEndpoint endpoint{.host = std::string(part.substr(0, colon))};
    if (colon != std::string_view::npos) {
      const std::string_view port = part.substr(colon + 1);
      const auto [end, error] =
          std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
      EMBLEM_REQUIRE(error == std::errc() && end == port.data() + port.size() &&
                         endpoint.port > 0 && endpoint.port < 65536,
                     "redis address \"", part, "\": \"", port,
                     "\" is no port; HOST:PORT is expected");
    }
    EMBLEM_REQUIRE(!endpoint.host.empty(), "redis address \"", part, "\" names no host");
    endpoints.push_back(std::move(endpoint));
  }
  EMBLEM_REQUIRE(!endpoints.empty(), "redis: no address is given; HOST:PORT is expected");
  return endpoints;
}

#ifndef EMBLEM_WITH_REDIS

std::unique_ptr<KvStore> make_redis_store(const RedisSettings&) {
  throw Error(ErrorCode::kInvalidArgument,
              "redis was asked for, but this binary was built without it (install libssl-dev and "
              "rebuild with -DEMBLEM_REDIS=ON)");
}

#endif

}  // namespace emblem
