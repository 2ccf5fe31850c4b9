#include "core/system/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>
#include <mutex>

#include "core/text/text.h"

namespace emblem {
namespace {

// Read for every line.
struct Shown {
  std::mutex mutex;
  LogSettings settings = log_settings_of_environment();
  std::shared_ptr<const LogSink> sink;  // null: stderr
};

Shown& shown() {
  static Shown instance;
  return instance;
}

void set_format(spdlog::logger& logger, const LogSettings& settings) {
  logger.set_pattern(settings.iso8601 ? "%Y-%m-%dT%H:%M:%SZ emblem: %v" : "emblem: %v",
                     spdlog::pattern_time_type::utc);
}

std::shared_ptr<spdlog::logger> make_logger() {
  auto logger =
      std::make_shared<spdlog::logger>("emblem", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  set_format(*logger, {});
  logger->set_level(spdlog::level::debug);
  logger->flush_on(spdlog::level::debug);
  return logger;
}

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = make_logger();
  return *instance;
}

// Lines may quote what clients sent: printable() keeps them from adding lines of their own.
void show(LogLevel level, const std::string& line) {
  std::shared_ptr<const LogSink> sink;
  {
    const std::lock_guard lock(shown().mutex);
    sink = shown().sink;
  }
  const std::string text = printable(line);
  if (sink != nullptr) return (*sink)(level, text);
  switch (level) {
    case LogLevel::kDebug:
      return logger().debug(text);
    case LogLevel::kInfo:
      return logger().info(text);
    case LogLevel::kWarning:
      return logger().warn("warning: " + text);
    case LogLevel::kError:
      return logger().error("error: " + text);
  }
}

}  // namespace

LogSettings log_settings_of_environment() {
  const char* text = std::getenv("EMBLEM_LOG");
  if (text == nullptr || *text == '\0') return {};
  const spdlog::level::level_enum level = spdlog::level::from_str(text);
  // from_str answers `off` to a word it does not know; silence would hide the slip.
  if (level == spdlog::level::off && std::string(text) != "off") return {};
  return {.info = level <= spdlog::level::info,
          .warning = level <= spdlog::level::warn,
          .error = level <= spdlog::level::err,
          .verbose_level = level <= spdlog::level::debug ? 1u : 0u};
}

LogSettings log_settings() {
  const std::lock_guard lock(shown().mutex);
  return shown().settings;
}

void set_log_settings(const LogSettings& settings) {
  const std::lock_guard lock(shown().mutex);
  shown().settings = settings;
  set_format(logger(), settings);
}

void set_log_sink(LogSink sink) {
  const std::lock_guard lock(shown().mutex);
  shown().sink = sink ? std::make_shared<const LogSink>(std::move(sink)) : nullptr;
}

void log_debug(const std::string& line) {
  if (log_settings().verbose_level > 0) show(LogLevel::kDebug, line);
}
void log_info(const std::string& line) {
  if (log_settings().info) show(LogLevel::kInfo, line);
}
void log_warn(const std::string& line) {
  if (log_settings().warning) show(LogLevel::kWarning, line);
}
void log_error(const std::string& line) {
  if (log_settings().error) show(LogLevel::kError, line);
}

}  // namespace emblem
