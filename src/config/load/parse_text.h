// config/load/parse_text.h - protobuf text into a message, with errors a person can act on.
#pragma once

#include <string>

namespace google::protobuf {
class Message;
}

namespace emblem {

// Where a text comes from, for messages.
struct TextOrigin {
  std::string file;   // "configs/x.config"; messages start with FILE:LINE:COLUMN
  std::string owner;  // the name of the message that the text fills; "" is the whole pipeline
};

// Replaces `message` by what `text` says. Missing fields are fine, unknown ones are errors. As in
// protobuf's Merge the last of several values counts, with a warning. Throws Error.
void parse_text(const std::string& text, const TextOrigin& origin,
                google::protobuf::Message* message);

}  // namespace emblem
