#include "config/load/parse_text.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>
#include <vector>

#include "config/load/field_text.h"
#include "core/system/log.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

constexpr int kTabWidth = 8;  // protobuf counts a tab as up to this many columns

struct Complaint {
  int line = 0;    // from 0
  int column = 0;  // from 0, tabs widened
  std::string text;
};

// The first complaint is about the cause; what follows are consequences.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& text) override {
    if (!first) first = Complaint{line, column, text};
  }
  std::optional<Complaint> first;
};

size_t offset_of(const std::string& text, int line, int column) {
  size_t at = 0;
  for (; line > 0 && at < text.size(); --line) {
    const size_t end = text.find('\n', at);
    at = end == std::string::npos ? text.size() : end + 1;
  }
  for (int seen = 0; seen < column && at < text.size() && text[at] != '\n'; ++at) {
    seen += text[at] == '\t' ? kTabWidth - seen % kTabWidth : 1;
  }
  return at;
}

std::string position(const std::string& text, size_t offset) {
  const auto line =
      std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n');
  const size_t newline = offset == 0 ? std::string::npos : text.rfind('\n', offset - 1);
  const size_t start = newline == std::string::npos ? 0 : newline + 1;
  return cat(line + 1, ":", offset - start + 1);
}

// ---- where in the tree of messages an offset is ----

struct Token {
  size_t begin = 0;
  std::string text;
};

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || std::strchr("_.+-", c) != nullptr;
}

size_t end_of_string(const std::string& text, size_t begin) {
  for (size_t at = begin + 1; at < text.size() && text[at] != '\n'; ++at) {
    if (text[at] == '\\')
      ++at;
    else if (text[at] == text[begin])
      return at + 1;
  }
  return text.size();
}

// Words, quoted strings and single symbols; comments and white space are skipped.
std::vector<Token> tokens_of(const std::string& text) {
  std::vector<Token> tokens;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    if (std::isspace(static_cast<unsigned char>(text[at]))) {
      ++at;
      continue;
    }
    if (text[at] == '#') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (text[at] == '"' || text[at] == '\'') {
      at = end_of_string(text, at);
    } else if (is_word(text[at])) {
      while (at < text.size() && is_word(text[at])) ++at;
    } else {
      ++at;
    }
    tokens.push_back({begin, text.substr(begin, at - begin)});
  }
  return tokens;
}

struct Opened {
  std::string field;
  size_t offset;
};

// What surrounds a place in the text.
struct Place {
  std::vector<Opened> path;  // the fields whose braces are open
  std::string field;         // the last field named on this level
};

Place place_of(const std::vector<Token>& tokens, size_t count) {
  Place place;
  for (size_t i = 0; i < count; ++i) {
    const std::string& text = tokens[i].text;
    const bool opens = text == "{" || text == "<";
    if ((opens || text == ":") && i > 0 && is_word(tokens[i - 1].text[0]))
      place.field = tokens[i - 1].text;
    if (opens) {
      place.path.push_back({place.field, tokens[i].begin});
    } else if ((text == "}" || text == ">") && !place.path.empty()) {
      place.field = place.path.back().field;
      place.path.pop_back();
    }
  }
  return place;
}

const Descriptor* enclosing(const Descriptor* message, const Place& place) {
  for (const Opened& opened : place.path) {
    const FieldDescriptor* field =
        message == nullptr ? nullptr : message->FindFieldByName(opened.field);
    message = field == nullptr ? nullptr : field->message_type();
  }
  return message;
}

// ---- from protobuf's complaint to ours ----

// "Unknown value of "X" for field "Y"." -> {X, Y}
std::vector<std::string> quoted_words(const std::string& text) {
  std::vector<std::string> words;
  for (size_t open = text.find('"'); open != std::string::npos; open = text.find('"', open)) {
    const size_t close = text.find('"', open + 1);
    if (close == std::string::npos) break;
    words.push_back(text.substr(open + 1, close - open - 1));
    open = close + 1;
  }
  return words;
}

class Explanation {
 public:
  Explanation(const std::string& text, const TextOrigin& origin, const Descriptor* root,
              const Complaint& complaint)
      : complaint_(complaint),
        tokens_(tokens_of(text)),
        offset_(offset_of(text, complaint.line, complaint.column)) {
    while (here_ < tokens_.size() && tokens_[here_].begin < offset_) ++here_;
    place_ = place_of(tokens_, here_);
    message_ = enclosing(root, place_);
    owner_ = place_.path.empty() ? origin.owner : place_.path.back().field;
    const std::string what = explain();
    line_ = cat(origin.file, ":", position(text, offset_), ": ", what);
  }

  const std::string& line() const { return line_; }

 private:
  bool says(const char* words) const { return complaint_.text.find(words) != std::string::npos; }

  // Protobuf reports some words only after it has read past them.
  void go_back_to(const std::string& word) {
    for (size_t i = std::min(here_ + 1, tokens_.size()); i-- > 0;) {
      if (tokens_[i].text != word) continue;
      offset_ = tokens_[i].begin;
      return;
    }
  }

  std::string explain() {
    const std::vector<std::string> words = quoted_words(complaint_.text);
    if (says("has no field named") && words.size() == 2 && message_ != nullptr) {
      go_back_to(words[1]);
      return no_such_field(*message_, owner_, words[1]);
    }
    if (says("is specified multiple times") && words.size() == 1) {
      go_back_to(words[0]);
      return cat(qualified(words[0]), " is given twice; the last value counts");
    }
    if (says("another member of oneof") && words.size() == 3) {
      go_back_to(words[0]);
      return cat(qualified(words[0]), " is given in addition to ", words[1], "; of ", words[2],
                 " the last one counts");
    }
    if (says("Unknown enumeration value") && words.size() == 2) return wrong(words[1], words[0]);
    if (says("Invalid value for boolean") && words.size() == 2) return wrong(words[0], words[1]);
    if (here_ == tokens_.size() && !place_.path.empty() && says("Expected identifier")) {
      offset_ = place_.path.back().offset;
      return cat("the \"{\" of ", owner_, " is never closed; add \"}\"");
    }
    if (place_.path.empty() && here_ < tokens_.size() && tokens_[here_].text == "}") {
      return "a \"}\" without \"{\"; remove it";
    }
    const bool is_value = says("Expected integer") || says("Expected double") ||
                          says("Expected string") || says("Integer out of range") ||
                          says("Expected \"{\"");
    const FieldDescriptor* field =
        message_ == nullptr ? nullptr : message_->FindFieldByName(field_of_value());
    if (is_value && field != nullptr && here_ < tokens_.size())
      return wrong(field->name(), value_here());
    return plain();
  }

  std::string wrong(const std::string& name, const std::string& value) {
    const FieldDescriptor* field = message_ == nullptr ? nullptr : message_->FindFieldByName(name);
    if (field == nullptr) return plain();
    go_back_to(value);
    return wrong_value(*field, owner_, value);
  }

  // "train_config = 3": no colon, so that the name is simply the word before.
  std::string field_of_value() const {
    if (says("Expected \"{\"") && here_ > 0 && is_word(tokens_[here_ - 1].text[0]))
      return tokens_[here_ - 1].text;
    return place_.field;
  }

  std::string value_here() const {
    const std::string& text = tokens_[here_].text;
    const bool is_symbol = text.size() == 1 && !is_word(text[0]);
    return is_symbol ? cat('"', text, '"') : text;
  }

  std::string qualified(const std::string& field) const {
    return owner_.empty() ? field : owner_ + "." + field;
  }

  std::string plain() const {
    std::string text = complaint_.text;
    while (!text.empty() && (text.back() == '.' || text.back() == ' ')) text.pop_back();
    if (!text.empty())
      text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
    if (text.ends_with("got:")) text += " the end";
    return text;
  }

  const Complaint& complaint_;
  std::vector<Token> tokens_;
  size_t offset_;
  size_t here_ = 0;  // the first token at or after offset_
  Place place_;
  const Descriptor* message_ = nullptr;
  std::string owner_;
  std::string line_;
};

}  // namespace

void parse_text(const std::string& text, const TextOrigin& origin, Message* message) {
  FirstError errors;
  TextFormat::Parser parser;
  parser.AllowPartialMessage(true);
  parser.RecordErrorsTo(&errors);
  if (parser.ParseFromString(text, message)) return;
  const Complaint complaint = errors.first.value_or(Complaint{0, 0, "cannot be parsed"});
  // What Parse refuses and Merge does not are fields that are given twice.
  FirstError merge_errors;
  parser.RecordErrorsTo(&merge_errors);
  message->Clear();
  const bool merges = parser.MergeFromString(text, message);
  const std::string line = Explanation(text, origin, message->GetDescriptor(),
                                       merges ? complaint : merge_errors.first.value_or(complaint))
                               .line();
  if (!merges) throw Error(ErrorCode::kInvalidArgument, line);
  log_warn(line);
}

}  // namespace emblem
