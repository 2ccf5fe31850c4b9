#include <CLI/CLI.hpp>

#include "cli/commands.h"

namespace emblem {

void add_bench(CLI::App& program, const std::vector<std::string>& arguments, int& status) {
  CLI::App* bench = program.add_subcommand("bench", "Measure speed, and judge results");
  bench->require_subcommand(1);
  add_train_bench(*bench);
  add_loader_bench(*bench);
  add_infer_bench(*bench);
  add_tables_bench(*bench);
  add_serve_bench(*bench);
  add_against(*bench, arguments, status);
  add_suite_bench(*bench, status);
  add_compare_bench(*bench, status);
}

}  // namespace emblem
