// remote/unit_copy.h - a unit of a remote folder that this process reads.
//
// Copies are kept in the cache folder by the version of the unit, whole or absent, for all
// processes. One that was damaged since (data/source/objects/copy_check.h) is fetched again. A copy
// is never changed, and not removed while a process holds it: a unit that is replaced or removed in
// the store meanwhile stays readable.
#pragma once

#include <memory>
#include <string>

#include "data/source/file_lock.h"
#include "remote/download.h"
#include "remote/remote_folder.h"

namespace emblem {

struct UnitCopy {
  std::string path;  // ends with the last part of the unit's name
  std::string fingerprint;
  std::unique_ptr<FileLock> hold;  // the copy stays while this exists
};

struct FetchOptions {
  // While another process downloads the unit, and its copy grows, it is waited for. After this
  // long without growth the unit is downloaded here, too, with a warning.
  double stall_seconds = 60;
  FetchCheck check;
};

// `fingerprint` is fingerprint_of the objects of the unit, which look() has seen. Throws
// kUnavailable when the unit changes meanwhile.
UnitCopy fetch_unit(const RemoteFolder& folder, const std::string& unit,
                    const std::string& fingerprint, const FetchOptions& options = {});

}  // namespace emblem
