#include "plan/links.h"

#include <algorithm>
#include <charconv>

#include "core/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Effective rates of all-to-all traffic, and latencies of small all-to-all calls.
const LinkClass kPublished[] = {
    {"nvlink4", 370e9, 12.5e-6,
     "published: 370 GB/s (nccl-tests issue 212), 12-13 us on 8 devices (NCCL custom_algos)"},
    {"ndr", 48e9, 31e-6,
     "published: 46-49 GB/s a NIC (nccl-tests issues 267, 290), 28-35 us on 32 devices (NCCL "
     "custom_algos)"}};

double parse_positive(const std::string& word, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  EMBLEM_REQUIRE(error == std::errc() && end == word.data() + word.size() && value > 0, "--link ",
                 printable(text), ": expected NAME=GB/s:MICROSECONDS, as in mine=25:20");
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

ExchangeTime described_exchange(int hosts, int devices, const LinkClass& inside,
                                const LinkClass& between) {
  const int ranks = hosts * devices;
  return [=](const Traffic& traffic) {
    double busiest = 0;
    for (size_t r = 0; r < traffic.sent.size(); ++r) {
      busiest = std::max({busiest, traffic.sent[r], traffic.received[r]});
    }
    if (ranks == 1) return 0.0;
    const double share = static_cast<double>(devices - 1) / (ranks - 1);
    const double seconds = std::max(busiest * share / inside.bytes_per_second,
                                    busiest * (1 - share) / between.bytes_per_second);
    return (hosts > 1 ? between : inside).latency_seconds + seconds;
  };
}

}  // namespace emblem
