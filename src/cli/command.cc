#include "cli/command.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <new>

#include "core/files/output_file.h"
#include "core/system/caught_error.h"
#include "core/system/interrupt.h"
#include "core/system/log.h"
#include "core/text/joined.h"
#include "core/text/text.h"
#include "data/format/text/csv_types.h"
#include "data/source/uri.h"
#include "emblem/api.h"
#include "emblem/error.h"
#include "launch/interrupt_handler.h"

namespace emblem {

// State of all commands.
struct Commands {
  struct Output {
    const std::string* path;
    OutputPlace place;
  };
  std::map<const CLI::App*, std::function<int()>> bodies;
  std::multimap<const CLI::App*, Output> outputs;
};

namespace {

constexpr int kFailed = 1, kBadUsage = 2;

template <class T>
struct ElementOf {
  using Type = T;
};
template <class T>
struct ElementOf<std::vector<T>> {
  using Type = T;
};

// "" if `given` is a whole number that an Integer can hold.
template <class Integer>
std::string integer_problem(const std::string& given) {
  const size_t sign = given.starts_with('-') || given.starts_with('+') ? 1 : 0;
  const bool whole =
      given.size() > sign && given.find_first_not_of("0123456789", sign) == std::string::npos;
  if (!whole) return cat(given, " is not a whole number");
  Integer number{};
  const char* begin = given.data() + (given.starts_with('+') ? 1 : 0);
  if (std::from_chars(begin, given.data() + given.size(), number).ec == std::errc()) return "";
  using Limits = std::numeric_limits<Integer>;
  return cat(given, " is out of range; expected ", +Limits::min(), " to ", +Limits::max());
}

template <class T>
CLI::Option* add(CLI::App* app, const std::string& names, T& variable, const std::string& value,
                 const std::string& text) {
  CLI::Option* option = app->add_option(names, variable, text);
  option->type_name(value)->capture_default_str();
  using Element = typename ElementOf<T>::Type;
  if constexpr (std::is_integral_v<Element>) {
    option->check([](const std::string& given) { return integer_problem<Element>(given); });
  }
  return option;
}

template <class T>
Option add_list(CLI::App* app, const std::string& names, std::vector<T>& variable,
                const std::string& value, const std::string& text) {
  return Option(add(app, names, variable, value, text)->delimiter(',')->allow_extra_args(false));
}

// Adds the names in a comma-separated list; one with a comma is in quotes, as in CSV.
void append_names(const std::string& option, std::string_view list,
                  std::vector<std::string>& names) {
  std::string unescaped;
  for (CsvField found = CsvField::kMoreFollow; found == CsvField::kMoreFollow;) {
    std::string_view name;
    found = take_csv_field(list, ',', unescaped, name);
    if (found == CsvField::kUnclosed || found == CsvField::kTextAfterQuote)
      throw CLI::ValidationError(
          cat(option,
              ": a quoted name is not closed, or text follows it; names with a comma are "
              "written as in CSV: 'a,\"b, c\"'"));
    names.emplace_back(name);
  }
}

std::string suggestion(const std::string& word, const std::vector<std::string>& names) {
  const auto nearest = nearest_name(word, names);
  return nearest ? cat("; did you mean ", *nearest, "?") : "";
}

// Restricts an option to `choices`. The help shows them as its argument or, if that is too long, in
// its text.
Option restrict(CLI::Option* option, std::vector<std::string> choices) {
  constexpr size_t kLongestShown = 40;
  const std::string all = joined(choices, "|");
  const bool is_short = all.size() <= kLongestShown;
  option->type_name(is_short ? all : "NAME");
  if (!is_short) {
    std::string text = option->get_description() + ":";
    for (const std::string& choice : choices) text += " " + choice;
    option->description(text);
  }
  option->check([choices = std::move(choices), all](const std::string& given) -> std::string {
    if (std::find(choices.begin(), choices.end(), given) != choices.end()) return "";
    const bool is_gpu =
        given == "gpu" && std::find(choices.begin(), choices.end(), "cuda") != choices.end();
    return cat("\"", given, "\" is not one of ", all, suggestion(is_gpu ? "cuda" : given, choices));
  });
  return Option(option);
}

// "" if `given` is a number for which `fine` is true.
template <class Fine>
std::string complain(const std::string& given, const Fine& fine, const std::string& expected) {
  double number = 0;
  if (!CLI::detail::lexical_cast(given, number)) return cat("\"", given, "\" is not a number");
  return fine(number) ? "" : cat(given, " is out of range; expected ", expected);
}

// Options as "--name VALUE   text (default: 3)", wrapped to kHelpColumns.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    if (option->get_description().empty()) return "";
    const std::string value = option->get_type_name();
    std::string head = "  " + option->get_name(is_positional);
    if (!is_positional && !value.empty()) head += " " + value;
    std::string text = option->get_description();
    if (option->get_required()) text += " (required)";
    std::string shown = option->get_default_str();
    if (shown.starts_with('[') && shown.ends_with(']')) shown = shown.substr(1, shown.size() - 2);
    const bool told = text.find("(default: ") != std::string::npos ||
                      (shown == "0" && text.find("(0: ") != std::string::npos);
    if (!shown.empty() && !told && !is_positional) text += " (default: " + shown + ")";
    return columns(head, text, kTextColumn);
  }

  std::string make_subcommand(const CLI::App* command) const override {
    return columns("  " + command->get_name(), command->get_description(), kTextColumn);
  }

  std::string make_description(const CLI::App* command) const override {
    return columns("", command->get_description(), 0);
  }

 private:
  static constexpr size_t kTextColumn = 30, kHelpColumns = 100;

  // `head`, then `text` from the column `begin` on.
  static std::string columns(const std::string& head, const std::string& text, size_t begin) {
    std::string help, line = head;
    const auto end_line = [&] {
      help += line + "\n";
      line.clear();
    };
    if (!head.empty() && head.size() + 2 > begin) end_line();
    for (const std::string& word : split(text, ' ')) {
      if (line.size() > begin && line.size() + 1 + word.size() > kHelpColumns) end_line();
      line += line.size() <= begin ? std::string(begin - line.size(), ' ') : " ";
      line += word;
    }
    end_line();
    return help;
  }
};

// Prints one line, whatever paths and values the message shows.
int fail(const char* message) {
  std::fprintf(stderr, "emblem: %s\n", printable(message).c_str());
  return kFailed;
}

// "train", "bench train"
std::string name_of(const CLI::App* app) {
  std::string name;
  for (; app->get_parent() != nullptr; app = app->get_parent())
    name = app->get_name() + (name.empty() ? "" : " ") + name;
  return name;
}

// The innermost command named by the arguments so far.
CLI::App* chosen_command(CLI::App& program) {
  CLI::App* chosen = &program;
  while (!chosen->get_subcommands().empty()) chosen = chosen->get_subcommands().front();
  return chosen;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string unknown_option(const CLI::App& command, int count, char** arguments) {
  const std::vector<std::string> names = option_names(command);
  for (int i = 0; i < count && std::string_view(arguments[i]) != "--"; ++i) {
    const std::string_view word = arguments[i];
    const std::string name(word.substr(0, word.find('=')));
    if (!word.starts_with("--") || std::find(names.begin(), names.end(), name) != names.end())
      continue;
    std::string hint = suggestion(name, names);
    if (hint.empty() && command.get_name() == "launch")
      hint = "; a command to start follows --, with its options";
    return cat(name_of(&command), " has no option ", name, hint);
  }
  return "";
}

// "" if the arguments begin with an existing command (and benchmark) and all options exist.
std::string unknown_name(const CLI::App& program, int argc, char** argv) {
  const CLI::App* app = &program;
  int i = 1;
  for (; i < argc && !app->get_subcommands({}).empty(); ++i) {
    const std::string word = argv[i];
    if (word.starts_with('-')) return "";
    const std::vector<std::string> names = command_names(*app);
    if (std::find(names.begin(), names.end(), word) == names.end()) {
      const std::string of = app == &program ? "" : name_of(app) + " ";
      const std::string hint = suggestion(word, names);
      return cat("there is no command \"", of, word, "\"",
                 hint.empty() ? cat("; emblem ", of, "--help lists all") : hint);
    }
    app = app->get_subcommand(word);
  }
  const bool is_leaf = app->get_subcommands({}).empty();
  return is_leaf && !app->get_allow_extras() ? unknown_option(*app, argc - i, argv + i) : "";
}

// The error in the arguments, in one line.
std::string usage_error(CLI::App& program, const CLI::ParseError& error) {
  CLI::App* command = chosen_command(program);
  const std::string name = name_of(command);
  std::string text = error.what();
  if (!command->get_subcommands({}).empty()) text = "no command is given";
  const CLI::Option* config = command->get_option_no_throw("--config");
  if (const auto extra = command->remaining();
      !extra.empty() && config != nullptr && config->count() == 0)
    text = cat("unexpected argument ", extra[0], "; did you mean --config ", extra[0], "?");
  for (char& c : text)
    if (c == '\n') c = ' ';
  return cat("emblem", name.empty() ? "" : " ", name, ": ", text, " (see emblem ", name,
             name.empty() ? "" : " ", "--help)");
}

// The exit status of a command that returned `status`: a failure if what it printed was lost.
int flush_output(int status) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  const int error = errno;
  if (error == EPIPE) return status;  // the reader has left
  fail(cat("cannot write standard output", error == 0 ? "" : ": ",
           error == 0 ? "" : std::strerror(error))
           .c_str());
  return status == 0 ? kFailed : status;
}

void prepare(const Commands::Output& output) {
  if (is_object_uri(*output.path))
    throw Error(ErrorCode::kInvalidArgument,
                cat("cannot write ", shown_uri(*output.path),
                    ": it is in a remote store; give a file on this machine, and copy it there"));
  if (is_standard_output(*output.path)) reserve_standard_output();
  if (output.place == OutputPlace::kFolderExists) check_output(*output.path);
}

int run_chosen(CLI::App& program, const Commands& commands) {
  try {
    const CLI::App* command = chosen_command(program);
    const auto [begin, end] = commands.outputs.equal_range(command);
    for (auto output = begin; output != end; ++output) prepare(output->second);
    return commands.bodies.at(command)();
  } catch (const std::bad_alloc&) {
    return fail("out of memory; use a smaller batch, smaller tables or a machine with more memory");
  } catch (...) {
    return fail(caught_error().what());
  }
}

}  // namespace

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::hide_default() {
  option_->default_str("");
  return *this;
}

Option& Option::range(double lowest, double highest) {
  option_->check([lowest, highest](const std::string& given) {
    return complain(
        given, [&](double number) { return number >= lowest && number <= highest; },
        cat(lowest, " to ", highest));
  });
  return *this;
}

Option& Option::positive() {
  option_->check([](const std::string& given) {
    return complain(
        given, [](double number) { return number > 0; }, "a number above 0");
  });
  return *this;
}

Option& Option::at_least(double lowest) {
  option_->check([lowest](const std::string& given) {
    return complain(
        given, [&](double number) { return number >= lowest; }, cat("at least ", lowest));
  });
  return *this;
}

Option& Option::not_empty() {
  option_->check([](const std::string& given) {
    return given.empty() ? std::string("is empty; give a value or omit the option") : "";
  });
  return *this;
}

Option& Option::excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}

Option& Option::needs(const Option& other) {
  option_->needs(other.option_);
  return *this;
}

Command::Command(CLI::App* app, std::shared_ptr<Commands> commands)
    : app_(app), commands_(std::move(commands)) {}

Command Command::add_command(const std::string& name, const std::string& text) {
  app_->require_subcommand(1);
  return Command(app_->add_subcommand(name, text), commands_);
}

Option Command::option(const std::string& names, std::string& variable, const std::string& value,
                       const std::string& text) {
  return Option(add(app_, names, variable, value, text));
}
Option Command::option(const std::string& names, int& variable, const std::string& value,
                       const std::string& text) {
  return Option(add(app_, names, variable, value, text));
}
Option Command::option(const std::string& names, int64_t& variable, const std::string& value,
                       const std::string& text) {
  return Option(add(app_, names, variable, value, text));
}
Option Command::option(const std::string& names, uint64_t& variable, const std::string& value,
                       const std::string& text) {
  return Option(add(app_, names, variable, value, text));
}
Option Command::option(const std::string& names, double& variable, const std::string& value,
                       const std::string& text) {
  return Option(add(app_, names, variable, value, text));
}

Option Command::output(const std::string& names, std::string& variable, const std::string& text,
                       OutputPlace place) {
  commands_->outputs.emplace(app_, Commands::Output{&variable, place});
  return Option(add(app_, names, variable, "FILE", text + " (-: standard output)"));
}

Option Command::choice(const std::string& names, std::string& variable,
                       std::vector<std::string> choices, const std::string& text) {
  return restrict(add(app_, names, variable, "", text), std::move(choices));
}

Option Command::choices(const std::string& names, std::vector<std::string>& variable,
                        std::vector<std::string> choices, const std::string& text) {
  return restrict(add(app_, names, variable, "", text)->delimiter(',')->allow_extra_args(false),
                  std::move(choices));
}

Option Command::size(const std::string& names, int64_t& variable, const std::string& text,
                     const std::string& shown) {
  const auto parse = [&variable, names](const std::string& given) {
    try {
      variable = parse_size(given, names);
    } catch (const Error& error) {
      throw CLI::ValidationError(error.what());
    }
  };
  CLI::Option* option = app_->add_option_function<std::string>(names, parse, text);
  return Option(option->type_name("SIZE")->default_str(shown));
}

Option Command::list(const std::string& names, std::vector<int>& variable, const std::string& value,
                     const std::string& text) {
  return add_list(app_, names, variable, value, text);
}
Option Command::list(const std::string& names, std::vector<int64_t>& variable,
                     const std::string& value, const std::string& text) {
  return add_list(app_, names, variable, value, text);
}
Option Command::list(const std::string& names, std::vector<double>& variable,
                     const std::string& value, const std::string& text) {
  return add_list(app_, names, variable, value, text);
}
Option Command::list(const std::string& names, std::vector<std::string>& variable,
                     const std::string& value, const std::string& text) {
  const auto parse = [&variable, names](const std::vector<std::string>& given) {
    variable.clear();
    for (const std::string& list : given) append_names(names, list, variable);
  };
  CLI::Option* option = app_->add_option_function<std::vector<std::string>>(names, parse, text);
  return Option(option->type_name(value)->allow_extra_args(false));
}

Option Command::repeatable(const std::string& names, std::vector<std::string>& variable,
                           const std::string& value, const std::string& text) {
  return Option(add(app_, names, variable, value, text)->allow_extra_args(false));
}

Option Command::flag(const std::string& names, bool& variable, const std::string& text) {
  return Option(app_->add_flag(names, variable, text));
}

Option Command::flag(const std::string& names, std::vector<std::string>& variable,
                     const std::string& value, const std::string& text) {
  return Option(app_->add_flag(names, variable, text)->type_name("[=" + value + "]"));
}

Option Command::argument(const std::string& name, std::string& variable, const std::string& text) {
  return Option(app_->add_option(name, variable, text)->type_name(""));
}

Option Command::arguments(const std::string& name, std::vector<std::string>& variable,
                          const std::string& text) {
  return Option(app_->add_option(name, variable, text)->type_name(""));
}

void Command::set_body(std::function<int()> body) { commands_->bodies[app_] = std::move(body); }

void Command::run_interruptible(std::function<int()> body) {
  run([body = std::move(body)] {
    const InterruptHandler handler;
    try {
      return body();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCancelled) throw;
      log_info(error.what());
      // Another of several ranks may have got the signal.
      return interrupted() ? interrupted_status() : kStatusOfInterrupt;
    }
  });
}

void Command::allow_any() { app_->allow_extras(); }

std::vector<Command> Command::commands() const {
  std::vector<Command> commands;
  for (CLI::App* app : app_->get_subcommands({})) commands.emplace_back(app, commands_);
  return commands;
}

void Command::run_instead(std::function<int(const std::function<int()>&)> instead) {
  std::function<int()>& body = commands_->bodies[app_];
  body = [instead = std::move(instead), original = body] { return instead(original); };
}

namespace {

// "--token=" of a script whose variable is not set; the parser would take the next argument as its
// value. Empty: there is none.
std::string option_without_value(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") break;
    if (word.starts_with("--") && word.size() > 3 && word.find('=') == word.size() - 1)
      return std::string(word);
  }
  return {};
}

}  // namespace

int run_program(int argc, char** argv, const std::function<void(Command& program)>& add) {
  CLI::App app(
      "Emblem trains, serves and benchmarks recommenders with embedding tables of any size.",
      "emblem");
  app.set_version_flag("--version", std::string("emblem ") + kVersion);
  app.formatter(std::make_shared<HelpFormatter>());
  const auto commands = std::make_shared<Commands>();
  Command program(&app, commands);
  add(program);
  if (const std::string unknown = unknown_name(app, argc, argv); !unknown.empty()) {
    std::fprintf(stderr, "emblem: %s\n", unknown.c_str());
    return kBadUsage;
  }
  if (const std::string option = option_without_value(argc, argv); !option.empty()) {
    std::fprintf(stderr, "emblem: %s has no value after the equals sign\n", option.c_str());
    return kBadUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // help and version
    return flush_output(app.exit(asked));
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "%s\n", usage_error(app, error).c_str());
    return kBadUsage;
  }
  return flush_output(run_chosen(app, *commands));
}

}  // namespace emblem
