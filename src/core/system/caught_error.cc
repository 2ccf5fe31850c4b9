#include "core/system/caught_error.h"

#include <filesystem>
#include <new>

#include "core/memory/heap_account.h"
#include "core/system/log.h"
#include "core/text/json_error.h"

namespace emblem {
namespace {

// Made before memory runs out: copying an Error allocates nothing.
const Error out_of_memory(ErrorCode::kOutOfMemory, "out of memory");

const Error budget_exhausted(ErrorCode::kUnavailable,
                             "requests hold all the memory that they may hold together; try again "
                             "later, or start the server with a larger --max-memory");

std::string text_of(const std::filesystem::filesystem_error& error) {
  std::string paths = error.path1().string();
  if (!error.path2().empty()) paths += cat(" or ", error.path2().string());
  return cat("cannot access ", paths.empty() ? "the file system" : paths, ": ",
             error.code().message());
}

Error rethrow_as_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const HeapAccountExhausted&) {
    return budget_exhausted;
  } catch (const std::bad_alloc&) {
    return out_of_memory;
  } catch (const std::filesystem::filesystem_error& error) {
    return {ErrorCode::kUnavailable, text_of(error)};
  } catch (const std::exception& error) {
    return {ErrorCode::kInternal, json_problem(error.what())};
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
