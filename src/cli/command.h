// cli/command.h - commands and their options. Hides CLI11, whose header takes seconds to compile.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace emblem {

inline constexpr int kStatusOfInterrupt = 130;  // as after Ctrl-C

// A declared option; the member functions restrict its value.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option& required();
  Option& hide_default();                        // the help text says what the default is
  Option& range(double lowest, double highest);  // both included
  Option& at_least(double lowest);
  Option& positive();  // above 0
  Option& not_empty();
  Option& excludes(const Option& other);
  Option& needs(const Option& other);

 private:
  CLI::Option* option_;
};

enum class OutputPlace { kFolderExists, kFolderMayBeMade };

// Variables bound to options must outlive parsing. The help shows `value` ("FILE", "N") as the
// argument of an option and the initial value of the variable as its default. It does not show
// options without a text, which are old names.
class Command {
 public:
  explicit Command(CLI::App* app, std::shared_ptr<struct Commands> commands);

  Command add_command(const std::string& name, const std::string& text);

  // A single value; the last one given is used.
  Option option(const std::string& names, std::string& variable, const std::string& value,
                const std::string& text);
  Option option(const std::string& names, int& variable, const std::string& value,
                const std::string& text);
  Option option(const std::string& names, int64_t& variable, const std::string& value,
                const std::string& text);
  Option option(const std::string& names, uint64_t& variable, const std::string& value,
                const std::string& text);
  Option option(const std::string& names, double& variable, const std::string& value,
                const std::string& text);
  // One of a set of words.
  Option choice(const std::string& names, std::string& variable, std::vector<std::string> choices,
                const std::string& text);
  // A comma-separated list of words of a set.
  Option choices(const std::string& names, std::vector<std::string>& variable,
                 std::vector<std::string> choices, const std::string& text);
  // A count or a number of bytes: 250k, 1M, 4GiB. The help shows `shown` as the default.
  Option size(const std::string& names, int64_t& variable, const std::string& text,
              const std::string& shown = "");
  // An output file; "-" is standard output, and the command then prints to standard error. One that
  // cannot be written is an error before the command runs, unless the command makes its folder.
  Option output(const std::string& names, std::string& variable, const std::string& text,
                OutputPlace place = OutputPlace::kFolderExists);
  // Comma-separated lists. Texts with a comma are in quotes, as in CSV: 'a,"b, c"'.
  Option list(const std::string& names, std::vector<int>& variable, const std::string& value,
              const std::string& text);
  Option list(const std::string& names, std::vector<int64_t>& variable, const std::string& value,
              const std::string& text);
  Option list(const std::string& names, std::vector<double>& variable, const std::string& value,
              const std::string& text);
  Option list(const std::string& names, std::vector<std::string>& variable,
              const std::string& value, const std::string& text);
  // May be repeated; each value may contain commas.
  Option repeatable(const std::string& names, std::vector<std::string>& variable,
                    const std::string& value, const std::string& text);
  // Also as --name=false.
  Option flag(const std::string& names, bool& variable, const std::string& text);
  // --name or --name=VALUE, may be repeated; without a value it adds "true".
  Option flag(const std::string& names, std::vector<std::string>& variable,
              const std::string& value, const std::string& text);
  // Positional arguments.
  Option argument(const std::string& name, std::string& variable, const std::string& text);
  Option arguments(const std::string& name, std::vector<std::string>& variable,
                   const std::string& text);

  // The body of the command, run after parsing; may return an exit status.
  template <class Body>
  void run(Body body) {
    if constexpr (std::is_void_v<std::invoke_result_t<Body>>) {
      set_body([body = std::move(body)] {
        body();
        return 0;
      });
    } else {
      set_body(std::move(body));
    }
  }
  // The same for a body that polls interrupted() (core/system/interrupt.h) and throws kCancelled.
  void run_interruptible(std::function<int()> body);
  // Accepts any arguments.
  void allow_any();

  // The subcommands of this command.
  std::vector<Command> commands() const;
  // Replaces the body given to run(); `body` may call the original one.
  void run_instead(std::function<int(const std::function<int()>& body)> instead);

 private:
  void set_body(std::function<int()> body);

  CLI::App* app_;
  std::shared_ptr<Commands> commands_;
};

// Declares the commands with `add`, parses the arguments, runs the command and returns the exit
// status: 0 success, 1 failure, 2 invalid usage (one line on stderr).
int run_program(int argc, char** argv, const std::function<void(Command& program)>& add);

}  // namespace emblem
