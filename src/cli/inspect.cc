#include <cstdio>
#include <filesystem>
#include <memory>

#include "checkpoint/inspect.h"
#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "data/format/reader.h"
#include "data/inspect.h"

namespace emblem {
namespace {

struct Options {
  std::string path;
  RemoteArguments remote;
};

void run(const Options& options) {
  configure_remote(options.remote);
  if (is_checkpoint(options.path)) {
    std::printf("%s", describe_checkpoint(options.path).c_str());
    return;
  }
  std::printf("%s", describe_dataset(guess_source(options.path)).c_str());
}

}  // namespace

void add_inspect(Command& program) {
  auto options = std::make_shared<Options>();
  Command command =
      program.add_command("inspect", "Describe a checkpoint, a model directory or a data set");
  command.argument("path", options->path, "Checkpoint, model directory or data set").required();
  add_remote_options(command, options->remote);
  command.run([options] { run(*options); });
}

}  // namespace emblem
