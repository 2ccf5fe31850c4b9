#include "cli/report.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "bench/report/report.h"
#include "core/process.h"

namespace emblem {

void add_report(CLI::App& program) {
  const auto request = std::make_shared<ReportRequest>();
  CLI::App* command =
      program.add_subcommand("report", "Turn results into one HTML page (and Markdown)");
  command
      ->add_option(
          "results", request->inputs,
          "Benchmark results (.json), training results or a history (.jsonl), model folders")
      ->required();
  command
      ->add_option("--before", request->before,
                   "Results of an earlier state: the page says what changed (repeatable)")
      ->allow_extra_args(false);
  command->add_option("--out", request->out, "The HTML page to write")->required();
  command->add_option("--markdown", request->markdown, "A Markdown file to write as well");
  command->add_option("--title", request->title, "The page's title")->capture_default_str();
  command->add_option(
      "--data", request->data,
      "metadata.json of a synthesized data set: its limits are drawn beside training runs");
  command->add_option("--references", request->reference_folder,
                      "Folder of published figures (default: bench/reference here or above the "
                      "program)");
  command
      ->add_option("--reference", request->references,
                   "Published figures to add by name, e.g. frappe-quality")
      ->allow_extra_args(false);
  command->callback([request] {
    std::string& folder = request->reference_folder;
    if (folder.empty())
      folder = find_reference_folder(std::filesystem::current_path().string(), program_path());
    for (const std::string& name : write_report(*request)) {
      const std::string why =
          folder.empty()
              ? "no folder bench/reference here or above the program; name it by --references"
              : "not in " + folder;
      std::fprintf(stderr, "report: published figures \"%s\" are left out: %s\n", name.c_str(),
                   why.c_str());
    }
    std::printf("wrote %s\n", request->out.c_str());
    if (!request->markdown.empty()) std::printf("wrote %s\n", request->markdown.c_str());
  });
}

}  // namespace emblem
