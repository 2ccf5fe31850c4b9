#include "launch/launch.h"

#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "cli/rank_options.h"

namespace emblem {

void add_launch(Command& program, const std::vector<std::string>& arguments) {
  struct Options : LaunchOptions {
    bool supervise = false;
    std::vector<std::string> parsed;  // the command as the parser sees it, which changes some words
  };
  auto options = std::make_shared<Options>();
  Command command = program.add_command(
      "launch",
      "Start a command as several ranks, on this machine or on hosts by ssh, and start it again "
      "after a failure: emblem launch --ranks 4 -- train --config FILE");
  command.option("--ranks", options->ranks, "N", "Number of ranks (default: those of --hosts)")
      .range(1, 1024)
      .hide_default();
  command.list(
      "--hosts", options->hosts, "HOST[:RANKS],...",
      "Hosts to run them on, by ssh; localhost is this machine without ssh (default: all ranks "
      "on this machine)");
  command
      .option("--restarts", options->restarts, "N",
              "Start all ranks again after a failure, up to N times; train continues from its "
              "latest checkpoint")
      .at_least(0);
  command
      .option("--least-ranks", options->least_ranks, "N",
              "Continue without hosts that cannot be reached and without a rank that fails twice "
              "in a row, as long as N ranks are left (default: all ranks)")
      .at_least(1)
      .hide_default();
  add_rendezvous_option(command, options->rendezvous,
                        "Where rank 0 waits for the others (default: its host, and a free port)");
  command.option("--ssh", options->ssh, "COMMAND",
                 "Program and options that reach a host (default: ssh -o BatchMode=yes -o "
                 "ConnectTimeout=10)");
  command.option("--log-dir", options->log_folder, "DIR",
                 "Also write the output of every rank to DIR/rank-N.log");
  command
      .option("--end-seconds", options->end_seconds, "S",
              "Time for the other ranks to end by themselves after a failure")
      .at_least(0);
  command.option("--program", options->program, "FILE",
                 "Start this program instead of emblem, with COMMAND as its arguments");
  command.flag("--supervise", options->supervise,
               "What launch runs on other hosts: a rank described on standard input");
  command.arguments("COMMAND", options->parsed, "The command with its options, after --");
  command.run([options, arguments] {
    if (options->supervise) return supervise();
    const auto separator = std::find(arguments.begin(), arguments.end(), "--");
    if (separator == arguments.end())
      options->command = options->parsed;
    else
      options->command.assign(separator + 1, arguments.end());
    return launch(*options);
  });
}

}  // namespace emblem
