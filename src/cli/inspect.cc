#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "checkpoint/inspect.h"
#include "cli/commands.h"
#include "data/format/reader.h"
#include "data/inspect.h"

namespace emblem {
namespace {

struct Options {
  std::string path;
};

void run(const Options& options) {
  if (is_checkpoint(options.path)) {
    std::printf("%s", describe_checkpoint(options.path).c_str());
    return;
  }
  std::printf("%s", describe_dataset(guess_source(options.path)).c_str());
}

}  // namespace

void add_inspect(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("inspect", "Say what a checkpoint, a model dir or a data set holds");
  command->add_option("path", options->path, "Checkpoint, model dir or data set")->required();
  command->callback([options] { run(*options); });
}

}  // namespace emblem
