#include <cstdio>
#include <memory>

#include "checkpoint/checkpoint.h"
#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "core/text/text.h"
#include "serve/repository/export.h"
#include "train/state/restored.h"

namespace emblem {
namespace {

struct ExportArguments {
  std::string checkpoint, out;
  int64_t version = 0;
  std::string precision, calibrate;
  int64_t calibration_rows = 100'000;
  RemoteArguments remote;
};

// Ranges of the model's layers on the data of --calibrate.
LayerRanges calibrated(const ExportArguments& options, const std::string& checkpoint) {
  EMBLEM_REQUIRE(!options.calibrate.empty(),
                 "--precision int8 needs --calibrate DATA: rows like those that the model will be "
                 "asked about, such as its training data");
  PipelineOptions fp32;
  fp32.precision = "fp32";
  fp32.remote = options.remote;
  const Workers workers = make_workers(fp32, 0);
  RestoredModel model(workers.context, checkpoint, "", overrides_of(fp32));
  return model.input_ranges(options.calibrate, options.calibration_rows, watch_pass("calibrating"));
}

void run(const ExportArguments& options) {
  const Storage storage = open_storage(options.remote);
  const bool is_int8 = options.precision == "int8";
  EMBLEM_REQUIRE(is_int8 || options.calibrate.empty(), "--calibrate needs --precision int8");
  const std::string checkpoint = find_checkpoint(options.checkpoint, storage);
  const LayerRanges ranges = is_int8 ? calibrated(options, checkpoint) : LayerRanges();
  const ExportedModel model =
      export_model(checkpoint, options.out, options.version, is_int8 ? &ranges : nullptr, storage);
  std::printf("wrote %s (step %ld, %s)%s\n", model.folder.c_str(), static_cast<long>(model.step),
              format_bytes(static_cast<double>(model.bytes)).c_str(),
              model.wrote_config ? " and config.pbtxt" : "");
}

}  // namespace

void add_export(Command& program) {
  auto options = std::make_shared<ExportArguments>();
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
  command.choice("--precision", options->precision, {"fp32", "int8"},
                 "What CPUs compute layers in (default: fp32): int8 is faster and needs "
                 "--calibrate; emblem serve can change fp32 to other types");
  command.option("--calibrate", options->calibrate, "PATH",
                 "For int8: data to measure the ranges of layer inputs");
  command
      .option("--calibration-rows", options->calibration_rows, "N", "Rows of it to read, at most")
      .positive();
  add_remote_options(command, options->remote);
  command.run([options] { run(*options); });
}

}  // namespace emblem
