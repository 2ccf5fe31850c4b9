#include "plan/probe/links.h"

#include <algorithm>

#include "core/text/parse_number.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Effective rates of all-to-all traffic, and latencies of small all-to-all calls.
const LinkClass kPublished[] = {
    {"nvlink4", 370e9, 12.5e-6,
     "published: 370 GB/s (nccl-tests issue 212), 12-13 us on 8 devices (NCCL custom_algos)"},
    {"ndr", 48e9, 31e-6,
     "published: 46-49 GB/s per NIC (nccl-tests issues 267, 290), 28-35 us on 32 devices (NCCL "
     "custom_algos)"}};

double parse_positive(const std::string& word, const std::string& text) {
  const double value = parse_number<double>(word).value_or(0);
  EMBLEM_REQUIRE(value > 0, "--link ", printable(text),
                 ": expected NAME=GB/s:MICROSECONDS, as in mine=25:20");
  return value;
}

}  // namespace

LinkClass parse_link(const std::string& text) {
  for (const LinkClass& link : kPublished)
    if (link.name == text) return link;
  const size_t equals = text.find('='), colon = text.find(':');
  if (equals == std::string::npos || colon == std::string::npos || colon < equals)
    throw Error(ErrorCode::kInvalidArgument,
                cat("--link ", printable(text),
                    ": not a known link; expected nvlink4, ndr, or NAME=GB/s:MICROSECONDS"));
  return {text.substr(0, equals),
          1e9 * parse_positive(text.substr(equals + 1, colon - equals - 1), text),
          1e-6 * parse_positive(text.substr(colon + 1), text), "assumed"};
}

ExchangeTime described_exchange(const LinkClass& inside, const LinkClass& between) {
  return [=](const Traffic& traffic) {
    if (traffic.ranks() == 1) return 0.0;
    const bool leaves_hosts = traffic.hosts->hosts() > 1 && !traffic.stays_inside;
    const double seconds = std::max(traffic.inside.busiest() / inside.bytes_per_second,
                                    traffic.between.busiest() / between.bytes_per_second);
    return (leaves_hosts ? between : inside).latency_seconds + seconds;
  };
}

HostGroups even_hosts(int hosts, int devices) {
  std::vector<std::string> names;
  for (int r = 0; r < hosts * devices; ++r) names.push_back(std::to_string(r / devices));
  return HostGroups(rank_hosts(names), 0);
}

}  // namespace emblem
