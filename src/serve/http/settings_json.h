// serve/http/settings_json.h - trace and log settings as JSON.
#pragma once

#include <string>

#include "serve/http/message.h"
#include "serve/protocol/log_change.h"
#include "serve/protocol/tracing.h"

namespace emblem {

// Both throw kInvalidArgument for a body that is malformed, the latter for unknown settings, too.
TraceChanges read_trace_changes(const HttpRequest& request);
LogChange read_log_change(const HttpRequest& request);

std::string trace_settings_json(const TraceSettings& settings);
std::string log_settings_json(const LogSettings& settings);

}  // namespace emblem
