// comm/tcp/host_name.h - the name of this machine, for messages and for finding ranks of one host.
#pragma once

#include <string>

namespace emblem {

std::string host_name();

// What ranks here call their host: EMBLEM_HOST_NAME, where it is set, or host_name(). Ranks with
// the same one share a host.
inline constexpr const char* kHostNameVariable = "EMBLEM_HOST_NAME";
std::string rank_host_name();

}  // namespace emblem
