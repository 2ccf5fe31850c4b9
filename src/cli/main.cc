#include "cli/main.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>

#include "cli/commands.h"
#include "cli/convert.h"
#include "cli/report.h"
#include "cli/synth.h"
#include "core/open_files.h"
#include "emblem/error.h"
#include "emblem/version.h"

namespace emblem {
namespace {

int fail(const char* message) {
  std::fprintf(stderr, "emblem: %s\n", message);
  return 1;
}

}  // namespace

int run_command_line(int argc, char** argv) {
  raise_open_file_limit();
  CLI::App app(
      "Emblem trains, serves and benchmarks recommenders with embedding tables of any size.",
      "emblem");
  app.set_version_flag("--version", std::string("emblem ") + kVersion);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  int status = 0;
  add_synth(app);
  add_convert(app);
  add_train(app, status);
  add_eval(app);
  add_predict(app, status);
  add_export(app);
  add_serve(app);
  add_inspect(app);
  add_bench(app, {argv + 1, argv + argc}, status);
  add_report(app);
  try {
    app.parse(argc, argv);
    return status;
  } catch (const CLI::ParseError& error) {
    // Help, version and what ran in place of a command (--against) arrive here too, with status 0;
    // everything else is bad usage.
    return app.exit(error) == 0 ? status : 2;
  } catch (const std::bad_alloc&) {
    return fail("out of memory; use a smaller batch, smaller tables or a machine with more memory");
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}

}  // namespace emblem
