#include "cli/commands.h"

#include <cstdio>
#include <filesystem>
#include <memory>

#include "bench/report/report.h"
#include "core/files/output_file.h"
#include "core/system/process.h"

namespace emblem {

void add_report(Command& program) {
  const auto request = std::make_shared<ReportRequest>();
  Command command = program.add_command("report", "Write results as one HTML page (and Markdown)");
  command
      .arguments("results", request->inputs,
                 "Benchmark results (.json), training results or a history (.jsonl), model folders")
      .required();
  command.repeatable("--before", request->before, "FILE",
                     "Earlier results to compare with (repeatable)");
  command.output("--out", request->out, "HTML page to write").required();
  command.output("--markdown", request->markdown, "Markdown file to write as well");
  command.option("--title", request->title, "TITLE", "Title of the page");
  command.option("--data", request->data, "PATH",
                 "Synthetic data set, or its metadata.json; its best possible values are drawn in "
                 "training curves");
  command.option("--references", request->reference_folder, "DIR",
                 "Folder of published figures (default: bench/reference here or above the "
                 "program)");
  command.repeatable("--reference", request->references, "NAME",
                     "Published figures to add by name, e.g. frappe-quality");
  command.run([request] {
    std::string& folder = request->reference_folder;
    if (folder.empty())
      folder = find_reference_folder(std::filesystem::current_path().string(), program_path());
    for (const std::string& name : write_report(*request)) {
      const std::string why =
          folder.empty()
              ? "no folder bench/reference here or above the program; give it with --references"
              : "not in " + folder;
      std::fprintf(stderr, "report: published figures \"%s\" are skipped: %s\n", name.c_str(),
                   why.c_str());
    }
    for (const std::string& file : {request->out, request->markdown})
      if (!file.empty() && !is_standard_output(file)) std::printf("wrote %s\n", file.c_str());
    return 0;
  });
}

}  // namespace emblem
