// cli/commands.h - the subcommands of `emblem`: each parses its options, calls one function and
// prints.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace emblem {

// `status` becomes the program's exit status when the run ends without an error.
void add_train(CLI::App& program, int& status);
void add_eval(CLI::App& program);
void add_predict(CLI::App& program, int& status);
void add_export(CLI::App& program);
void add_serve(CLI::App& program);
void add_inspect(CLI::App& program);
// `arguments` are the program's own, without its name.
void add_bench(CLI::App& program, const std::vector<std::string>& arguments, int& status);
void add_train_bench(CLI::App& bench);
void add_loader_bench(CLI::App& bench);
void add_infer_bench(CLI::App& bench);
void add_tables_bench(CLI::App& bench);
void add_serve_bench(CLI::App& bench);
void add_suite_bench(CLI::App& bench, int& status);
void add_compare_bench(CLI::App& bench, int& status);
// Gives every benchmark that `bench` has so far --against and --pairs.
void add_against(CLI::App& bench, const std::vector<std::string>& arguments, int& status);

}  // namespace emblem
