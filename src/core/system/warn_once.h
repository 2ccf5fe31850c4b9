// core/system/warn_once.h - warnings that would be repeated, for example at every evaluation.
#pragma once

#include <mutex>
#include <set>
#include <string>

#include "core/system/log.h"

namespace emblem {

// Logs the line unless this process has logged one with the same `key`. Thread-safe.
inline void warn_once(const std::string& key, const std::string& line) {
  static std::mutex mutex;
  static std::set<std::string> warned;
  const std::lock_guard lock(mutex);
  if (warned.insert(key).second) log_warn(line);
}

}  // namespace emblem
