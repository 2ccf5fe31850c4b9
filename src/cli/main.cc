#include "cli/main.h"

#include "cli/command.h"
#include "cli/commands.h"
#include "core/open_files.h"

namespace emblem {

int run_command_line(int argc, char** argv) {
  raise_open_file_limit();
  return run_program(argc, argv, [&](Command& program) {
    add_init(program);
    add_synth(program);
    add_convert(program);
    add_convert_hugectr(program);
    add_train(program);
    add_eval(program);
    add_predict(program);
    add_export(program);
    add_serve(program);
    add_inspect(program);
    add_bench(program, {argv + 1, argv + argc});
    add_report(program);
  });
}

}  // namespace emblem
