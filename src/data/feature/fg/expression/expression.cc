#include "data/feature/fg/expression/expression.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <optional>

#include "core/text/joined.h"
#include "core/text/text.h"
#include "data/feature/fg/expression/expression_functions.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Values = Expression::Values;

// Makes `values` fit for `size` numbers: one stays one, what is not there is `fill`.
void extend(std::vector<double>& values, size_t size, double fill) {
  if (values.size() != 1) values.resize(size, fill);
}

size_t common_size(std::span<const std::vector<double>> arguments) {
  size_t size = 1;
  for (const std::vector<double>& argument : arguments) size = std::max(size, argument.size());
  return size;
}

void call_of_one(double (*f)(double), std::vector<double>& x) {
  for (double& value : x) value = f(value);
}

// The result takes the place of the first argument.
template <class Function>
void combine(std::vector<double>& a, const std::vector<double>& b, size_t size, Function f) {
  if (a.size() == size && b.size() == size) {
    for (size_t i = 0; i < size; ++i) a[i] = f(a[i], b[i]);
  } else if (a.size() == size) {
    const double other = b[0];
    for (size_t i = 0; i < size; ++i) a[i] = f(a[i], other);
  } else {
    const double first = a[0];
    a.resize(size);
    for (size_t i = 0; i < size; ++i) a[i] = f(first, b[i]);
  }
}

void call_of_two(const ExpressionFunction& function, std::span<std::vector<double>> arguments,
                 double fill) {
  const size_t size = common_size(arguments);
  for (std::vector<double>& argument : arguments) extend(argument, size, fill);
  std::vector<double>& a = arguments[0];
  const std::vector<double>& b = arguments[1];
  // What the compiler makes vector code of.
  const std::string_view name = function.name;
  if (name == "+") return combine(a, b, size, [](double x, double y) { return x + y; });
  if (name == "-") return combine(a, b, size, [](double x, double y) { return x - y; });
  if (name == "*") return combine(a, b, size, [](double x, double y) { return x * y; });
  if (name == "/") return combine(a, b, size, [](double x, double y) { return x / y; });
  combine(a, b, size, function.of_two);
}

void call_of_numbers(const ExpressionFunction& function, std::span<std::vector<double>> arguments,
                     double fill) {
  const size_t size = common_size(arguments);
  for (std::vector<double>& argument : arguments) extend(argument, size, fill);
  std::vector<double> numbers(arguments.size());
  std::vector<double> result(size);
  for (size_t i = 0; i < size; ++i) {
    for (size_t k = 0; k < numbers.size(); ++k)
      numbers[k] = arguments[k][arguments[k].size() == 1 ? 0 : i];
    result[i] = function.of_numbers(numbers);
  }
  arguments[0] = std::move(result);
}

void call_of_vectors(const ExpressionFunction& function, std::span<std::vector<double>> arguments,
                     double fill) {
  double result = 0;
  if (function.of_vector != nullptr) {
    result = function.of_vector(arguments[0]);
  } else {
    // One number does not stand for several in functions of vectors.
    const size_t size = common_size(arguments);
    for (std::vector<double>& argument : arguments) argument.resize(size, fill);
    result = function.of_vectors(arguments[0], arguments[1]);
  }
  arguments[0].assign(1, result);
}

void call(const ExpressionFunction& function, std::span<std::vector<double>> arguments,
          double fill) {
  if (function.is_of_vectors()) return call_of_vectors(function, arguments, fill);
  if (function.of_one != nullptr) return call_of_one(function.of_one, arguments[0]);
  if (function.of_two != nullptr) return call_of_two(function, arguments, fill);
  call_of_numbers(function, arguments, fill);
}

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Longer ones first.
constexpr std::string_view kSigns[] = {"||", "&&", "==", "!=", "<=", ">=", "|", "&", "<", ">", "+",
                                       "-",  "*",  "/",  "^",  "?",  ":",  "(", ")", ",", "!"};

int precedence_of(std::string_view sign) {
  constexpr std::pair<std::string_view, int> kLevels[] = {
      {"||", 1}, {"&&", 2}, {"|", 3},  {"&", 4}, {"==", 5}, {"!=", 5}, {"<", 5},
      {"<=", 5}, {">", 5},  {">=", 5}, {"+", 6}, {"-", 6},  {"*", 7},  {"/", 7}};
  for (const auto& [name, level] : kLevels)
    if (name == sign) return level;
  return 0;
}

}  // namespace

Expression::Values Expression::evaluate(std::span<const Values> values, double fill,
                                        Workspace& workspace) const {
  if (workspace.size() < depth_) workspace.resize(depth_);
  size_t top = 0;
  for (const Node& node : nodes_) {
    switch (node.kind) {
      case Node::Kind::kConstant:
        workspace[top++].assign(1, node.constant);
        break;
      case Node::Kind::kVariable: {
        const Values& of = values[node.variable];
        if (of.empty())
          workspace[top++].assign(1, fill);
        else
          workspace[top++].assign(of.begin(), of.end());
        break;
      }
      case Node::Kind::kCall:
        top -= node.arguments;
        call(*node.function, {workspace.data() + top, node.arguments}, fill);
        ++top;
        break;
    }
  }
  return workspace[0];
}

class ExpressionParser {
 public:
  ExpressionParser(std::string_view text, std::span<const std::string> variables,
                   const std::string& what)
      : text_(text), variables_(variables), what_(what) {
    next();
  }

  Expression parse() {
    parse_choice();
    if (token_.kind != Token::Kind::kEnd) fail("an operator or the end");
    return std::move(result_);
  }

 private:
  struct Token {
    enum class Kind { kEnd, kNumber, kName, kSign };
    Kind kind = Kind::kEnd;
    size_t begin = 0;
    std::string_view text;
    double number = 0;
  };

  // Counts the levels of nesting.
  class Level {
   public:
    explicit Level(ExpressionParser& parser) : parser_(parser) {
      if (++parser.level_ > Expression::kMaxDepth)
        parser.fail_at(parser.token_.begin,
                       cat("nested too deep; expected at most ", Expression::kMaxDepth / 2 - 1,
                           " levels of parentheses"));
    }
    ~Level() { --parser_.level_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    ExpressionParser& parser_;
  };

  [[noreturn]] void fail_at(size_t position, const std::string& problem) const {
    throw Error(ErrorCode::kInvalidArgument,
                cat(what_, " \"", printable(text_.substr(0, 200)), text_.size() > 200 ? "..." : "",
                    "\", position ", position + 1, ": ", problem));
  }
  [[noreturn]] void fail(const std::string& expected) const {
    const std::string found = token_.kind == Token::Kind::kEnd
                                  ? std::string("the end")
                                  : cat("\"", printable(token_.text.substr(0, 40)), "\"");
    fail_at(token_.begin, cat("expected ", expected, ", found ", found));
  }

  void next() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    token_ = {Token::Kind::kEnd, at_, {}, 0};
    if (at_ == text_.size()) return;
    const char c = text_[at_];
    if (is_digit(c) || (c == '.' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1])))
      return read_number();
    if (is_name_start(c)) return read_name();
    for (const std::string_view sign : kSigns) {
      if (!text_.substr(at_).starts_with(sign)) continue;
      token_.kind = Token::Kind::kSign;
      token_.text = text_.substr(at_, sign.size());
      at_ += sign.size();
      return;
    }
    fail_at(at_, cat("\"", printable(text_.substr(at_, 1)), "\" is not an operator"));
  }

  void read_number() {
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), token_.number);
    token_.text = {begin, static_cast<size_t>(end - begin)};
    if (error != std::errc()) fail_at(at_, cat("the number is too large or too small for 64 bits"));
    token_.kind = Token::Kind::kNumber;
    at_ += token_.text.size();
  }

  void read_name() {
    const size_t begin = at_;
    while (at_ < text_.size() && (is_name_start(text_[at_]) || is_digit(text_[at_]))) ++at_;
    token_.kind = Token::Kind::kName;
    token_.text = text_.substr(begin, at_ - begin);
  }

  bool is_sign(std::string_view sign) const {
    return token_.kind == Token::Kind::kSign && token_.text == sign;
  }
  void expect(std::string_view sign) {
    if (!is_sign(sign)) fail(cat("\"", sign, "\""));
    next();
  }

  void push(const Expression::Node& node) {
    using Kind = Expression::Node::Kind;
    result_.nodes_.push_back(node);
    waiting_ += 1;
    if (node.kind == Kind::kCall) waiting_ -= node.arguments;
    result_.depth_ = std::max(result_.depth_, waiting_);
  }
  void push_call(const ExpressionFunction& function, uint32_t arguments) {
    Expression::Node node;
    node.kind = Expression::Node::Kind::kCall;
    node.function = &function;
    node.arguments = arguments;
    push(node);
    result_.has_vector_functions_ |= function.is_of_vectors();
    result_.has_isnan_ |= function.name == "isnan";
  }
  void push_constant(double value) {
    Expression::Node node;
    node.constant = value;
    push(node);
  }

  void parse_choice() {
    const Level level(*this);
    parse_binary(1);
    if (!is_sign("?")) return;
    next();
    parse_choice();
    expect(":");
    parse_choice();
    push_call(*find_operator("?:"), 3);
  }

  void parse_binary(int least) {
    parse_signed();
    while (token_.kind == Token::Kind::kSign) {
      const int level = precedence_of(token_.text);
      if (level < least || level == 0) return;
      const ExpressionFunction& function = *find_operator(token_.text);
      next();
      parse_binary(level + 1);
      push_call(function, 2);
    }
  }

  // -x^2 is -(x^2).
  void parse_signed() {
    const Level level(*this);
    if (is_sign("+")) {
      next();
      return parse_signed();
    }
    if (is_sign("-") || is_sign("!")) {
      const std::string_view name = is_sign("-") ? "neg" : "!";
      next();
      parse_signed();
      return push_call(*find_operator(name), 1);
    }
    parse_value();
    if (!is_sign("^")) return;
    next();
    parse_signed();
    push_call(*find_operator("^"), 2);
  }

  void parse_value() {
    if (token_.kind == Token::Kind::kNumber) {
      push_constant(token_.number);
      return next();
    }
    if (token_.kind == Token::Kind::kName) return parse_name();
    if (!is_sign("(")) fail("a number, a variable, a function or \"(\"");
    next();
    parse_choice();
    expect(")");
  }

  void parse_name() {
    const Token name = token_;
    next();
    if (is_sign("(")) return parse_call(name);
    for (uint32_t i = 0; i < variables_.size(); ++i) {
      if (variables_[i] != name.text) continue;
      Expression::Node node;
      node.kind = Expression::Node::Kind::kVariable;
      node.variable = i;
      return push(node);
    }
    if (name.text == "_pi") return push_constant(std::numbers::pi);
    if (name.text == "_e") return push_constant(std::numbers::e);
    if (find_function(name.text) != nullptr)
      fail_at(name.begin, cat(name.text, " is a function; write ", name.text, "(...)"));
    std::vector<std::string> known(variables_.begin(), variables_.end());
    fail_unknown(name, "variable", known);
  }

  void parse_call(const Token& name) {
    const ExpressionFunction* function = find_function(name.text);
    if (function == nullptr && name.text == "rnd")
      fail_at(name.begin,
              "rnd() is not supported: the same data would give other values each time");
    if (function == nullptr) fail_unknown(name, "function", function_names());
    next();
    uint32_t arguments = 0;
    if (!is_sign(")")) {
      parse_choice();
      for (arguments = 1; is_sign(","); ++arguments) {
        next();
        parse_choice();
      }
    }
    expect(")");
    const auto least = static_cast<uint32_t>(function->least_arguments);
    const auto most = static_cast<uint32_t>(function->most_arguments);
    if (arguments < least || (function->most_arguments >= 0 && arguments > most))
      fail_at(name.begin, cat(name.text, " has ", arguments, " arguments, expected ",
                              most == least ? cat(least) : cat("at least ", least)));
    push_call(*function, arguments);
  }

  [[noreturn]] void fail_unknown(const Token& name, const char* kind,
                                 const std::vector<std::string>& known) const {
    const auto nearest = nearest_name(name.text, known);
    const std::string list = joined(known);
    fail_at(name.begin, cat("there is no ", kind, " \"", printable(name.text.substr(0, 40)), "\"",
                            nearest        ? cat("; did you mean \"", *nearest, "\"?")
                            : list.empty() ? std::string("; the feature has none")
                                           : cat("; expected one of ", list)));
  }

  std::string_view text_;
  std::span<const std::string> variables_;
  const std::string& what_;
  size_t at_ = 0;
  int level_ = 0;
  size_t waiting_ = 0;
  Token token_;
  Expression result_;
};

Expression Expression::parse(std::string_view text, std::span<const std::string> variables,
                             const std::string& what) {
  return ExpressionParser(text, variables, what).parse();
}

}  // namespace emblem
