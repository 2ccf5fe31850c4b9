#include "core/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>

namespace emblem {
namespace {

spdlog::level::level_enum chosen_level() {
  const char* text = std::getenv("EMBLEM_LOG");
  if (text == nullptr || *text == '\0') return spdlog::level::info;
  const spdlog::level::level_enum level = spdlog::level::from_str(text);
  // from_str answers `off` to a word it does not know; silence would hide the slip.
  if (level == spdlog::level::off && std::string(text) != "off") return spdlog::level::info;
  return level;
}

std::shared_ptr<spdlog::logger> make_logger() {
  auto logger =
      std::make_shared<spdlog::logger>("emblem", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("emblem: %v");
  logger->set_level(chosen_level());
  logger->flush_on(spdlog::level::debug);
  return logger;
}

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = make_logger();
  return *instance;
}

}  // namespace

void log_debug(const std::string& line) { logger().debug(line); }
void log_info(const std::string& line) { logger().info(line); }
void log_warn(const std::string& line) { logger().warn("warning: " + line); }
void log_error(const std::string& line) { logger().error("error: " + line); }

}  // namespace emblem
