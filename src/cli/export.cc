#include <cstdio>
#include <memory>

#include "checkpoint/checkpoint.h"
#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "core/text/text.h"
#include "serve/repository/export.h"
#include "train/state/onnx_export.h"
#include "train/state/restored.h"

namespace emblem {
namespace {

struct ExportArguments {
  std::string checkpoint, out;
  int64_t version = 0;
  std::string precision, calibrate;
  int64_t calibration_rows = 100'000;
  std::string format = "emblem";
  std::vector<std::string> outputs;
  bool has_external_data = false;
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

void run_onnx(const ExportArguments& options) {
  EMBLEM_REQUIRE(options.version == 0,
                 "--version numbers models of a repository; omit it with "
                 "--format onnx");
  EMBLEM_REQUIRE(options.precision != "int8" && options.calibrate.empty(),
                 "--format onnx computes in fp32; omit --precision int8 and --calibrate");
  const Storage storage = open_storage(options.remote);  // holds a copy that is fetched
  const std::string checkpoint = find_checkpoint(options.checkpoint, storage);
  PipelineOptions fp32;
  fp32.remote = options.remote;
  const Workers workers = make_workers(fp32, 0);
  const ExportedOnnx model = export_onnx(workers.context, checkpoint,
                                         {options.out, options.outputs, options.has_external_data});
  std::printf("wrote %s/model.onnx (step %ld, %s)\n", options.out.c_str(),
              static_cast<long>(model.step),
              format_bytes(static_cast<double>(model.bytes)).c_str());
}

void run(const ExportArguments& options) {
  if (options.format == "onnx") return run_onnx(options);
  EMBLEM_REQUIRE(options.outputs.empty() && !options.has_external_data,
                 "--outputs and --external-data need --format onnx");
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
  Command command = program.add_command("export",
                                        "Write a checkpoint as a model that emblem serve or "
                                        "ONNX Runtime loads");
  command
      .option("--checkpoint", options->checkpoint, "DIR",
              "Checkpoint, or model directory (its latest one)")
      .required();
  command
      .option("--out", options->out, "DIR",
              "REPOSITORY/NAME: the model's folder; a new version is added to it. With --format "
              "onnx: a new folder for model.onnx")
      .required();
  command.choice("--format", options->format, {"emblem", "onnx"},
                 "What is written: a model that emblem serve loads, or one of ONNX");
  command.list("--outputs", options->outputs, "NAME,...",
               "For onnx: outputs of the model, as those of emblem predict; user_tower_emb or "
               "item_tower_emb alone needs the inputs of that tower only");
  command.flag("--external-data", options->has_external_data,
               "For onnx: rows of tables in model.onnx.data, as those above 1.5 GB always are");
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
