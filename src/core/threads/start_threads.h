// core/threads/start_threads.h - threads that cannot be started are one clear error, not an abort.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace emblem {

// Starts `count` threads that run `body` and appends them to `threads`. When one cannot be started,
// calls `stop`, which must make the bodies return, joins all of `threads` and throws kUnavailable:
// "cannot start <what>: Resource temporarily unavailable; <advice> or raise ulimit -u or -v".
void start_threads(std::vector<std::thread>& threads, int count, const std::string& what,
                   const std::string& advice, const std::function<void()>& body,
                   const std::function<void()>& stop);

// One thread. Throws kUnavailable.
std::thread start_thread(const char* name, std::function<void()> body);

}  // namespace emblem
