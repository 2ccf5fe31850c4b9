#include "data/format/rows/files_without_rows.h"

#include "core/system/warn_once.h"
#include "emblem/error.h"

namespace emblem {

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
  warn_once("no rows: " + input_, cat(count_, " of ", files, " files ",
                                      count_ == 1 ? "has no rows and is skipped: "
                                                  : "have no rows and are skipped, the first: ",
                                      first_));
}

}  // namespace emblem
