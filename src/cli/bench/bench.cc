#include "cli/commands.h"

namespace emblem {

void add_bench(Command& program, const std::vector<std::string>& arguments) {
  Command bench = program.add_command("bench", "Measure speed and compare results");
  add_train_bench(bench);
  add_loader_bench(bench);
  add_infer_bench(bench);
  add_tables_bench(bench);
  add_comm_bench(bench);
  add_collection_bench(bench);
  add_plan_bench(bench);
  add_retrieve_bench(bench);
  add_serve_bench(bench);
  add_freshness_bench(bench);
  add_against(bench, arguments);
  add_suite_bench(bench);
  add_compare_bench(bench);
}

}  // namespace emblem
