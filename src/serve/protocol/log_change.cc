#include "serve/protocol/log_change.h"

#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {

void change_log_settings(const LogChange& change) {
  if (change.has_file)
    throw Error(ErrorCode::kUnsupported,
                "log file location can not be updated through network protocol");
  LogSettings settings = log_settings();
  settings.info = change.info.value_or(settings.info);
  settings.warning = change.warning.value_or(settings.warning);
  settings.error = change.error.value_or(settings.error);
  settings.verbose_level = change.verbose_level.value_or(settings.verbose_level);
  if (change.format) {
    EMBLEM_REQUIRE(*change.format == "default" || *change.format == "ISO8601",
                   "invalid argument for log_format, got: ", printable(*change.format));
    settings.iso8601 = *change.format == "ISO8601";
  }
  set_log_settings(settings);
}

}  // namespace emblem
