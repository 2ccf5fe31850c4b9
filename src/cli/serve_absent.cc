// Stands in for serve.cc in builds without the libraries of a server.
#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "emblem/error.h"

namespace emblem {

static void add_absent(CLI::App& parent, const char* name) {
  CLI::App* command = parent.add_subcommand(name, "Not in this build");
  command->allow_extras();
  command->callback([] {
    throw Error(
        ErrorCode::kUnsupported,
        "this build has no server: Boost, OpenSSL, zlib or gRPC was missing when it was made");
  });
}

void add_serve(CLI::App& program) { add_absent(program, "serve"); }
void add_serve_bench(CLI::App& bench) { add_absent(bench, "serve"); }

}  // namespace emblem
