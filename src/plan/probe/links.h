// plan/probe/links.h - links between devices that were not probed: published or assumed rates.
#pragma once

#include <string>

#include "plan/cost/traffic.h"

namespace emblem {

struct LinkClass {
  std::string name;
  double bytes_per_second = 0, latency_seconds = 0;
  std::string source;  // "published: ...", "assumed"
};

// "nvlink4", "ndr", or NAME=RATE:LATENCY with GB/s of one device and microseconds. Throws Error.
LinkClass parse_link(const std::string& text);

// Every rank has these links. What leaves a host and what stays inside move at the same time.
ExchangeTime described_exchange(const LinkClass& inside, const LinkClass& between);

// `hosts` hosts with `devices` ranks each.
HostGroups even_hosts(int hosts, int devices);

}  // namespace emblem
