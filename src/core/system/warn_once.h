// core/system/warn_once.h - warnings that would be repeated, for example at every evaluation.
#pragma once

#include <chrono>
#include <string>

namespace emblem {

// Logs the line unless one with the same `key` was logged less than `period` ago. Thread-safe.
// Remembers the latest few hundred keys.
void warn_once(const std::string& key, const std::string& line,
               std::chrono::steady_clock::duration period = std::chrono::hours(24 * 365));

// All are logged again, as a new Runtime does.
void forget_warnings();

}  // namespace emblem
