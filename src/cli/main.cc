#include "cli/main.h"

#include <signal.h>

#include "cli/command.h"
#include "cli/commands.h"
#include "core/open_files.h"
#include "data/source/object_store.h"

namespace emblem {

int run_command_line(int argc, char** argv) {
  raise_open_file_limit();
  // A file that may not grow (ulimit -f) is an error of the write, as on a full disk.
  ::signal(SIGXFSZ, [](int) {});
  const int status = run_program(argc, argv, [&](Command& program) {
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
    add_serve(program);
    add_inspect(program);
    add_cache(program);
    add_launch(program, {argv + 1, argv + argc});
    add_bench(program, {argv + 1, argv + argc});
    add_report(program);
  });
  finalize_stores();
  return status;
}

}  // namespace emblem
