// serve/protocol/metric_label.h - values of labels in the text format of Prometheus.
#pragma once

#include <string>
#include <string_view>

namespace emblem {

// The value with backslashes before what would end the value.
std::string escaped_label(std::string_view value);

}  // namespace emblem
