#include "cli/main.h"

#include <google/protobuf/stubs/logging.h>
#include <signal.h>

#include <cstdlib>

#include "cli/command.h"
#include "cli/commands.h"
#include "core/files/open_files.h"
#include "core/system/log.h"
#include "emblem/error.h"
#include "runtime/runtime.h"

namespace emblem {
namespace {

RuntimeOptions program_options() {
  RuntimeOptions options;
  options.on_stuck_rank = [](const std::string& failure) {
    log_error(failure);
    std::_Exit(1);
  };
  options.set_variable = [](const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), /*overwrite=*/1);
  };
  options.orc_reader = {"/proc/self/exe", kOrcReaderArgument};
  return options;
}

int run_command(int argc, char** argv) {
  const Runtime runtime(program_options());
  return run_program(argc, argv, [&](Command& program) {
    add_init(program);
    add_synth(program);
    add_convert(program);
    add_convert_hugectr(program);
    add_train(program);
    add_probe(program);
    add_plan(program);
    add_eval(program);
    add_predict(program);
    add_export(program);
    add_index(program);
    add_tree(program);
    add_serve(program);
    add_inspect(program);
    add_cache(program);
    add_launch(program, {argv + 1, argv + argc});
    add_bench(program, {argv + 1, argv + argc});
    add_report(program);
  });
}

// Clients of a server could fill its log: protobuf has a line for each text that is not UTF-8.
void log_protobuf_as_debug() {
  google::protobuf::SetLogHandler(
      [](google::protobuf::LogLevel, const char*, int, const std::string& message) {
        log_debug(cat("protobuf: ", message));
      });
}

}  // namespace

int run_command_line(int argc, char** argv) {
  if (is_orc_reader(argc, argv)) return run_orc_reader();
  raise_open_file_limit();
  log_protobuf_as_debug();
  // A file that may not grow (ulimit -f) is an error of the write, as on a full disk.
  ::signal(SIGXFSZ, [](int) {});
  const int status = run_command(argc, argv);
  Runtime::finalize_stores();
  return status;
}

}  // namespace emblem
