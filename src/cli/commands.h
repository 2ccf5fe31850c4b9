// cli/commands.h - the subcommands of `emblem`: each parses its options, calls one function and
// prints.
#pragma once

namespace CLI {
class App;
}

namespace emblem {

// `status` becomes the program's exit status when the run ends without an error.
void add_train(CLI::App& program, int& status);
void add_eval(CLI::App& program);
void add_predict(CLI::App& program);
void add_export(CLI::App& program);
void add_serve(CLI::App& program);
void add_inspect(CLI::App& program);
void add_bench(CLI::App& program);
void add_loader_bench(CLI::App& bench);
void add_infer_bench(CLI::App& bench);
void add_tables_bench(CLI::App& bench);
void add_serve_bench(CLI::App& bench);

}  // namespace emblem
