// core/log.h - lines for the person who watches, on stderr: "emblem: ...". What a command is asked
// for goes to stdout instead. EMBLEM_LOG=debug|info|warn|error chooses from where on lines are
// shown (default: info).
#pragma once

#include <cstdint>
#include <string>

namespace emblem {

// Which lines are shown, and how; begins as EMBLEM_LOG says.
struct LogSettings {
  bool info = true, warning = true, error = true;
  uint32_t verbose_level = 0;  // above 0: debug lines, too
  bool iso8601 = false;        // lines begin with their time

  bool operator==(const LogSettings&) const = default;
};
// Thread-safe; for the whole process.
LogSettings log_settings();
void set_log_settings(const LogSettings& settings);

void log_debug(const std::string& line);
void log_info(const std::string& line);
void log_warn(const std::string& line);   // "emblem: warning: ..."
void log_error(const std::string& line);  // "emblem: error: ..."

}  // namespace emblem
