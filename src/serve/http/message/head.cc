#include "serve/http/message/head.h"

#include <string_view>

namespace emblem {
namespace {

const char* reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Payload Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    default:
      return "Internal Server Error";
  }
}

void append_header(std::string& head, std::string_view name, std::string_view value) {
  head += name;
  head += ": ";
  head += value;
  head += "\r\n";
}

}  // namespace

std::string response_head(const HttpResponse& response, size_t body_bytes, bool keep_alive) {
  std::string head;
  head.reserve(256);
  head += "HTTP/1.1 ";
  head += std::to_string(response.status);
  head += ' ';
  head += reason_of(response.status);
  head += "\r\n";
  if (body_bytes > 0) append_header(head, "Content-Type", response.content_type);
  append_header(head, "Content-Length", std::to_string(body_bytes));
  for (const auto& [name, value] : response.headers) append_header(head, name, value);
  append_header(head, "Connection", keep_alive ? "keep-alive" : "close");
  head += "\r\n";
  return head;
}

}  // namespace emblem
