// Stands in for serve.cc in builds without the libraries of a server.
#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "emblem/error.h"

namespace emblem {

void add_serve(CLI::App& program) {
  CLI::App* command = program.add_subcommand("serve", "Not in this build: it has no server");
  command->allow_extras();
  command->callback([] {
    throw Error(
        ErrorCode::kUnsupported,
        "this build has no server: Boost, OpenSSL, zlib or gRPC was missing when it was made");
  });
}

}  // namespace emblem
