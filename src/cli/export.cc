#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "core/text.h"
#include "serve/repository/export.h"

namespace emblem {
namespace {

struct Options {
  std::string checkpoint, out;
  int64_t version = 0;
  RemoteArguments remote;
};

void run(const Options& options) {
  configure_remote(options.remote);
  const ExportedModel model = export_model(options.checkpoint, options.out, options.version);
  std::printf("wrote %s (step %ld, %s)%s\n", model.folder.c_str(), static_cast<long>(model.step),
              format_bytes(static_cast<double>(model.bytes)).c_str(),
              model.wrote_config ? " and config.pbtxt" : "");
}

}  // namespace

void add_export(Command& program) {
  auto options = std::make_shared<Options>();
  Command command =
      program.add_command("export", "Write a checkpoint as a model that emblem serve loads");
  command
      .option("--checkpoint", options->checkpoint, "DIR",
              "Checkpoint, or model directory (its latest one)")
      .required();
  command
      .option("--out", options->out, "DIR",
              "REPOSITORY/NAME: the model's folder; a new version is added to it")
      .required();
  command.option("--version", options->version, "N", "Version number (default: the next one)")
      .positive();
  add_remote_options(command, options->remote);
  command.run([options] { run(*options); });
}

}  // namespace emblem
