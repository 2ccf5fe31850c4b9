#include "core/threads/start_threads.h"

#include <new>
#include <system_error>

#include "emblem/error.h"

namespace emblem {
namespace {

constexpr const char* kRaiseLimits = "raise ulimit -u or -v";

// Calls start(); what the system throws when it has no more threads or memory becomes an Error.
template <class Start>
void start_or_throw(const std::string& what, const std::string& advice, Start&& start) {
  const auto cannot_start = [&](const std::string& reason) {
    return Error(ErrorCode::kUnavailable, cat("cannot start ", what, ": ", reason, "; ", advice));
  };
  try {
    start();
  } catch (const std::system_error& error) {
    throw cannot_start(error.code().message());
  } catch (const std::bad_alloc&) {
    throw cannot_start("out of memory");
  }
}

}  // namespace

void start_threads(std::vector<std::thread>& threads, int count, const std::string& what,
                   const std::string& advice, const std::function<void()>& body,
                   const std::function<void()>& stop) {
  try {
    start_or_throw(what, cat(advice, " or ", kRaiseLimits), [&] {
      threads.reserve(threads.size() + static_cast<size_t>(count));
      for (int i = 0; i < count; ++i) threads.emplace_back(body);
    });
  } catch (...) {
    stop();
    for (std::thread& thread : threads) thread.join();
    threads.clear();
    throw;
  }
}

std::thread start_thread(const char* name, std::function<void()> body) {
  std::thread thread;
  start_or_throw(cat("a ", name, " thread"), kRaiseLimits,
                 [&] { thread = std::thread(std::move(body)); });
  return thread;
}

}  // namespace emblem
