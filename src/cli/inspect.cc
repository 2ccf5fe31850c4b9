#include <cstdio>
#include <filesystem>
#include <memory>

#include "bench/result/result.h"
#include "checkpoint/inspect.h"
#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "core/device/cpu_level.h"
#include "core/text/text.h"
#include "data/format/reader.h"
#include "data/inspect.h"
#include "kernels/cpu/tile_kernel.h"

namespace emblem {
namespace {

struct InspectArguments {
  std::string path;
  bool machine = false;
  RemoteArguments remote;
};

// What this machine has, and which of it is used.
void describe_machine() {
  const Machine machine = this_machine();
  std::printf("cpu        %s, %d cores\nmemory     %s\n", machine.cpu.c_str(), machine.cores,
              format_bytes(static_cast<double>(machine.memory_bytes)).c_str());
  if (!machine.gpu.empty()) std::printf("gpu        %s\n", machine.gpu.c_str());
  const std::string_view highest = cpu_level();
  std::printf("level      %s%s\n", std::string(compiled_level()).c_str(),
              highest.empty() ? "" : cat(" (this CPU: ", highest, ")").c_str());
  for (const cpu::TileKernel* kernel : cpu::tile_kernels()) {
    const bool is_used = kernel == &cpu::tile_kernel(kernel->type);
    std::printf("kernel     %-14s %s%s\n", kernel->name, name_of(kernel->type),
                is_used ? ", used" : "");
  }
}

void run(const InspectArguments& options) {
  EMBLEM_REQUIRE(options.machine != !options.path.empty(),
                 "inspect: give a path or --machine, one of them");
  if (options.machine) return describe_machine();
  const Storage storage = open_storage(options.remote);
  if (is_checkpoint(options.path, storage)) {
    std::printf("%s", describe_checkpoint(options.path, storage).c_str());
    return;
  }
  std::printf("%s", describe_dataset(guess_source(options.path, {}, storage)).c_str());
}

}  // namespace

void add_inspect(Command& program) {
  auto options = std::make_shared<InspectArguments>();
  Command command =
      program.add_command("inspect", "Describe a checkpoint, a model directory or a data set");
  command.argument("path", options->path, "Checkpoint, model directory or data set");
  command.flag("--machine", options->machine,
               "Describe this machine and the CPU kernels that are used on it");
  add_remote_options(command, options->remote);
  command.run([options] { run(*options); });
}

}  // namespace emblem
