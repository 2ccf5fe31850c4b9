#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "core/text.h"
#include "serve/repository/export.h"

namespace emblem {
namespace {

struct Options {
  std::string checkpoint, out;
  int64_t version = 0;
};

void run(const Options& options) {
  const ExportedModel model = export_model(options.checkpoint, options.out, options.version);
  std::printf("wrote %s (step %ld, %s)%s\n", model.folder.c_str(), static_cast<long>(model.step),
              format_bytes(static_cast<double>(model.bytes)).c_str(),
              model.wrote_config ? " and config.pbtxt beside it" : "");
}

}  // namespace

void add_export(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("export", "Turn a checkpoint into a model that emblem serve loads");
  command->add_option("--checkpoint", options->checkpoint, "Checkpoint, or model dir of a run")
      ->required();
  command
      ->add_option("--out", options->out,
                   "REPOSITORY/NAME: the model's folder; a new version is added to it")
      ->required();
  command->add_option("--version", options->version, "Its number (default: the next one)")
      ->check(CLI::PositiveNumber);
  command->callback([options] { run(*options); });
}

}  // namespace emblem
