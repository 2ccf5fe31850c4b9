// cli/command.h - the commands of the program and their options. CLI11 is hidden behind it: parsed
// in one source, it does not cost seconds in every file that declares an option.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace emblem {

// An option that was declared; the calls restrict its value.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option& required();
  Option& hide_default();                        // the text tells what happens without it
  Option& range(double lowest, double highest);  // both included
  Option& at_least(double lowest);
  Option& positive();  // above 0
  Option& excludes(const Option& other);
  Option& needs(const Option& other);

 private:
  CLI::Option* option_;
};

// Variables that are bound to options must outlive parsing. Help shows `value` as what an option
// takes ("FILE", "N"), and the variable's first value as its default.
class Command {
 public:
  explicit Command(CLI::App* app, std::shared_ptr<struct Commands> commands);

  Command add_command(const std::string& name, const std::string& text);

  // Of a single value; the last one given counts.
  Option option(const std::string& names, std::string& variable, const std::string& value,
                const std::string& text);
  Option option(const std::string& names, int& variable, const std::string& value,
                const std::string& text);
  Option option(const std::string& names, int64_t& variable, const std::string& value,
                const std::string& text);
  Option option(const std::string& names, uint64_t& variable, const std::string& value,
                const std::string& text);
  Option option(const std::string& names, uint16_t& variable, const std::string& value,
                const std::string& text);
  Option option(const std::string& names, double& variable, const std::string& value,
                const std::string& text);
  // One of a few words.
  Option choice(const std::string& names, std::string& variable, std::vector<std::string> choices,
                const std::string& text);
  // Several of them, comma-separated.
  Option choices(const std::string& names, std::vector<std::string>& variable,
                 std::vector<std::string> choices, const std::string& text);
  // A count or a number of bytes: 250k, 1M, 4GiB. The help shows `shown` as the default.
  Option size(const std::string& names, int64_t& variable, const std::string& text,
              const std::string& shown = "");
  // A file to write; "-" is standard output, and then the command prints to standard error.
  Option output(const std::string& names, std::string& variable, const std::string& text);
  // Comma-separated lists.
  Option list(const std::string& names, std::vector<int>& variable, const std::string& value,
              const std::string& text);
  Option list(const std::string& names, std::vector<int64_t>& variable, const std::string& value,
              const std::string& text);
  Option list(const std::string& names, std::vector<double>& variable, const std::string& value,
              const std::string& text);
  Option list(const std::string& names, std::vector<std::string>& variable,
              const std::string& value, const std::string& text);
  // May be given several times, each time with one value that may hold commas.
  Option repeatable(const std::string& names, std::vector<std::string>& variable,
                    const std::string& value, const std::string& text);
  Option flag(const std::string& names, bool& variable, const std::string& text);
  // Arguments without a name.
  Option argument(const std::string& name, std::string& variable, const std::string& text);
  Option arguments(const std::string& name, std::vector<std::string>& variable,
                   const std::string& text);

  // What the command does once everything is parsed; returns the exit status.
  void run(std::function<int()> body);
  // The same for a body that looks at interrupted() (core/interrupt.h) and throws kCancelled.
  void run_interruptible(std::function<int()> body);
  // Takes any arguments, whatever they are.
  void allow_any();

  // The commands that have been added to this one.
  std::vector<Command> commands() const;
  // Wraps what run() was given: `body` may call it, or do something else in its place.
  void run_instead(std::function<int(const std::function<int()>& body)> instead);

 private:
  CLI::App* app_;
  std::shared_ptr<Commands> commands_;
};

// Declares the commands by `add`, parses, runs the command that was asked for, and returns the exit
// status: 0 success, 1 a failed run, 2 bad usage, which is one line on stderr.
int run_program(int argc, char** argv, const std::function<void(Command& program)>& add);

}  // namespace emblem
