#include "core/caught_error.h"

#include <new>

#include "core/log.h"

namespace emblem {
namespace {

// Made before memory runs out: copying an Error allocates nothing.
const Error out_of_memory(ErrorCode::kOutOfMemory, "out of memory");

Error rethrow_as_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return out_of_memory;
  } catch (const std::exception& error) {
    return {ErrorCode::kInternal, error.what()};
  } catch (...) {
    return {ErrorCode::kInternal, "an exception of an unknown type was thrown"};
  }
}

void log_with(void (*log)(const std::string&), const char* doing) noexcept {
  const Error error = caught_error();
  try {
    log(cat(doing, ": ", error.what()));
  } catch (...) {  // no memory for the line
  }
}

}  // namespace

Error caught_error() noexcept {
  try {
    return rethrow_as_error();
  } catch (...) {
    return out_of_memory;
  }
}

void log_caught(const char* doing) noexcept { log_with(log_error, doing); }

void debug_caught(const char* doing) noexcept { log_with(log_debug, doing); }

}  // namespace emblem
