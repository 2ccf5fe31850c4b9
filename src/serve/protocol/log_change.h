// serve/protocol/log_change.h - the log settings that clients read and change, with the names and
// messages of Triton.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/system/log.h"

namespace emblem {

// What a client asks for; nothing: as it is.
struct LogChange {
  std::optional<bool> info, warning, error;
  std::optional<uint32_t> verbose_level;
  std::optional<std::string> format;  // "default" or "ISO8601"
  bool has_file = false;              // log_file, which cannot be changed
};

// Changes the settings of this process (core/system/log.h). Throws kInvalidArgument or
// kUnsupported, with nothing changed.
void change_log_settings(const LogChange& change);

inline const char* log_format_name(const LogSettings& settings) {
  return settings.iso8601 ? "ISO8601" : "default";
}

}  // namespace emblem
