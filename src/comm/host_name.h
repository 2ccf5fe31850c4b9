// comm/host_name.h - the name of this machine, for messages and for finding ranks of one host.
#pragma once

#include <string>

namespace emblem {

std::string host_name();

}  // namespace emblem
