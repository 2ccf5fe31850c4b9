#include "data/format/files_without_rows.h"

#include <mutex>
#include <set>

#include "core/log.h"
#include "emblem/error.h"

namespace emblem {
namespace {

bool is_first_warning(const std::string& input) {
  static std::mutex mutex;
  static std::set<std::string> warned;
  const std::lock_guard lock(mutex);
  return warned.insert(input).second;
}

}  // namespace

void FilesWithoutRows::add(const std::string& path, const std::string& problem) {
  if (count_++ > 0) return;
  first_ = path;
  first_problem_ = problem;
}

bool FilesWithoutRows::add_if_empty(const InputFile& file) {
  if (file.bytes() > 0) return false;
  add(file.path(), kEmptyFile);
  return true;
}

void FilesWithoutRows::finish(size_t files) const {
  if (count_ == 0) return;
  if (count_ == files) {
    throw Error(ErrorCode::kCorruption,
                cat(files > 1 ? cat("none of ", files, " files has rows; the first: ") : "", first_,
                    " ", first_problem_));
  }
  if (!is_first_warning(input_)) return;
  log_warn(cat(
      count_, " of ", files, " files ",
      count_ == 1 ? "has no rows and is skipped: " : "have no rows and are skipped, the first: ",
      first_));
}

}  // namespace emblem
