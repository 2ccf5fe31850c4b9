// serve/http/message/request_object.h - bodies that are one JSON object.
#pragma once

#include <string_view>

#include "serve/http/message/message.h"
#include "serve/protocol/encoding/json_reader.h"

namespace emblem {

// Calls member(json, key) for each member of the object that is the request's body, if there is
// one.
template <class Member>
void read_object(const HttpRequest& request, Member&& member) {
  if (request.body.empty()) return;
  JsonReader json(text_of(request.body));
  json.object([&](std::string_view key) { member(json, key); });
  json.end();
}

}  // namespace emblem
