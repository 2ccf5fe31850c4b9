// cli/commands.h - the commands of `emblem`: each declares its options, calls one function and
// prints the result.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace emblem {

void add_init(Command& program);
void add_synth(Command& program);
void add_convert(Command& program);
void add_convert_hugectr(Command& program);
void add_train(Command& program);
void add_probe(Command& program);
void add_plan(Command& program);
void add_eval(Command& program);
void add_predict(Command& program);
void add_export(Command& program);
void add_index(Command& program);
void add_tree(Command& program);
void add_serve(Command& program);
void add_inspect(Command& program);
void add_cache(Command& program);
void add_report(Command& program);
// `arguments` are the program's own, without its name.
void add_bench(Command& program, const std::vector<std::string>& arguments);
void add_launch(Command& program, const std::vector<std::string>& arguments);
void add_train_bench(Command& bench);
void add_loader_bench(Command& bench);
void add_infer_bench(Command& bench);
void add_tables_bench(Command& bench);
void add_comm_bench(Command& bench);
void add_collection_bench(Command& bench);
void add_plan_bench(Command& bench);
void add_retrieve_bench(Command& bench);
void add_serve_bench(Command& bench);
void add_freshness_bench(Command& bench);
void add_suite_bench(Command& bench);
void add_compare_bench(Command& bench);
// Adds --against and --pairs to all benchmarks.
void add_against(Command& bench, const std::vector<std::string>& arguments);

}  // namespace emblem
