// core/log.h - lines for the person who watches, on stderr: "emblem: ...". What a command is asked
// for goes to stdout instead. EMBLEM_LOG=debug|info|warn|error chooses from where on lines are
// shown (default: info).
#pragma once

#include <string>

namespace emblem {

void log_debug(const std::string& line);
void log_info(const std::string& line);
void log_warn(const std::string& line);   // "emblem: warning: ..."
void log_error(const std::string& line);  // "emblem: error: ..."

}  // namespace emblem
