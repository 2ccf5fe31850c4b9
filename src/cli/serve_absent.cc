// Replaces serve.cc, bench_serve.cc and bench_freshness.cc in builds without EMBLEM_SERVE.
#include "cli/commands.h"
#include "emblem/error.h"

namespace emblem {

static void add_absent(Command& parent, const char* name) {
  Command command = parent.add_command(name, "Not in this build");
  command.allow_any();
  command.run([]() -> int {
    throw Error(ErrorCode::kUnsupported,
                "this program was built without a server: install Boost, OpenSSL, zlib and gRPC, "
                "and build it again");
  });
}

void add_serve(Command& program) { add_absent(program, "serve"); }
void add_serve_bench(Command& bench) { add_absent(bench, "serve"); }
void add_freshness_bench(Command& bench) { add_absent(bench, "freshness"); }

}  // namespace emblem
