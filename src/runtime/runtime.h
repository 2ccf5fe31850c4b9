// runtime/runtime.h - what a process has once, and who decides about it: the log, the libraries of
// remote stores, the environment, the end of a process whose rank hangs, the readers of ORC files.
//
// The program makes one in main(); so does a program that uses Emblem as a library. Emblem itself
// installs no signal handlers, changes no environment and ends no process.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/watch.h"
#include "core/system/log.h"
#include "core/system/process.h"
#include "data/format/columnar/orc_readers.h"

namespace emblem {

struct RuntimeOptions {
  std::optional<LogSettings> log;  // unset: as EMBLEM_LOG says
  LogSink log_sink;                // empty: lines go to stderr

  // Called with the line of a rank's failure when this process still hangs in a collective of the
  // job `stuck_seconds` later: see WatchSettings. Empty: it hangs until the call returns.
  std::function<void(const std::string& failure)> on_stuck_rank;
  double stuck_seconds = 5;

  // How variables are set that libraries read: CUDA_VISIBLE_DEVICES and NCCL_* for ranks on one
  // host, SSL_CERT_FILE for GCS and Azure. ::setenv fits where no other code of the process reads
  // the environment meanwhile. Empty: they stay as the user has set them.
  SetVariable set_variable;

  // The program that reads ORC files, and its arguments: the program `emblem` with
  // kOrcReaderArgument, or {"/proc/self/exe", kOrcReaderArgument} where main() begins with
  // `if (is_orc_reader(argc, argv)) return run_orc_reader();`. Empty: ORC files are an error.
  std::vector<std::string> orc_reader;
};

// One at a time; after it has ended, another can be made. All that was made with it (storages,
// communicators, readers, trainers) has ended before. Thread-safe.
class Runtime {
 public:
  // Throws kInvalidArgument while there is another one.
  explicit Runtime(RuntimeOptions options = {});
  // The log is as it was before. S3's library, if it was started, keeps running without a
  // connection: Arrow cannot start it again.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // The one that there is. Throws kInternal without one.
  static const Runtime& current();

  // Ends S3's library for good, which a process that has used s3:// must do, without a Runtime,
  // before it returns from main(): as a handler of atexit() it is too late. Afterwards s3:// is an
  // error. Does nothing where S3 was not used.
  static void finalize_stores();

  const RuntimeOptions& options() const { return options_; }
  // For communicators between processes.
  WatchSettings watch_settings() const;

 private:
  struct Only {
    explicit Only(const Runtime* runtime);
    ~Only();
  };

  const Only only_;
  const RuntimeOptions options_;
  const LogSettings log_before_;
  const OrcReaders orc_readers_;
};

}  // namespace emblem
