// core/system/log.h - log lines for the user, on stderr: "emblem: ...". What a command is asked
// for goes to stdout instead. EMBLEM_LOG=debug|info|warn|error is the lowest level that is shown
// (default: info).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace emblem {

// Which lines are shown, and how.
struct LogSettings {
  bool info = true, warning = true, error = true;
  uint32_t verbose_level = 0;  // above 0: debug lines, too
  bool iso8601 = false;        // lines begin with their time

  bool operator==(const LogSettings&) const = default;
};
// As EMBLEM_LOG says.
LogSettings log_settings_of_environment();

// Thread-safe; for the whole process. They begin as EMBLEM_LOG says.
LogSettings log_settings();
void set_log_settings(const LogSettings& settings);

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Gets the lines that are shown in place of stderr, without "emblem: " and their time. Called on
// any thread, by several at once; must not throw.
using LogSink = std::function<void(LogLevel level, const std::string& line)>;
// Thread-safe; an empty one is stderr. A call of the sink before may still be under way afterwards.
void set_log_sink(LogSink sink);

void log_debug(const std::string& line);
void log_info(const std::string& line);
void log_warn(const std::string& line);   // "emblem: warning: ..."
void log_error(const std::string& line);  // "emblem: error: ..."

}  // namespace emblem
