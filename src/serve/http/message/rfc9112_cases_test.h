// serve/http/message/rfc9112_cases_test.h - requests as raw bytes: those that RFC 9112 allows, and
// those that two servers could read differently. For the test of the server, and as seeds of its
// fuzzing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace emblem {

struct Rfc9112Case {
  std::string name;
  std::string bytes;
  // Statuses of the answers. The last one of a refused case is 400, after which the server
  // closes.
  std::vector<int> statuses;
  bool closes = false;
};

namespace rfc9112 {

// With NULs.
template <size_t N>
std::string raw(const char (&text)[N]) {
  return std::string(text, N - 1);
}

inline std::string get(const std::string& headers) {
  return "GET /x HTTP/1.1\r\n" + headers + "\r\n";
}
inline std::string post(const std::string& headers, const std::string& body) {
  return "POST /x HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n" + body;
}
inline std::string chunked(const std::string& body) {
  return post("Transfer-Encoding: chunked\r\n", body);
}

inline void add_accepted(std::vector<Rfc9112Case>& cases) {
  const auto add = [&](std::string name, std::string bytes, size_t answers = 1) {
    cases.push_back({std::move(name), std::move(bytes), std::vector<int>(answers, 200), false});
  };
  add("get", get("Host: x\r\n"));
  add("header_in_lower_case", get("host: x\r\n"));
  add("blanks_around_a_value", get("Host: \t x \t\r\n"));
  add("empty_value", get("Host: x\r\nA:\r\n"));
  add("bytes_above_127_in_a_value", get("Host: x\r\nA: \x80\xFF\r\n"));
  add("empty_line_before_the_request", "\r\n" + get("Host: x\r\n"));
  add("pipelined", get("Host: x\r\n") + post("Content-Length: 2\r\n", "hi") + get("Host: x\r\n"),
      3);
  add("host_with_port", get("Host: model-server.example_1:8000\r\n"));
  add("host_ipv6", get("Host: [::1]:8000\r\n"));
  add("absolute_form", "GET http://other:80/x?y=1 HTTP/1.1\r\nHost: x\r\n\r\n");
  add("absolute_form_without_path", "GET HTTP://other HTTP/1.1\r\nHost: x\r\n\r\n");
  add("target_with_query", "GET /x%20y?a=b&c=//?d HTTP/1.1\r\nHost: x\r\n\r\n");
  add("http_1_0_that_stays", "GET /x HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
  add("content_length", post("Content-Length: 5\r\n", "hello"));
  add("content_length_0", post("Content-Length: 0\r\n", ""));
  add("content_length_with_zeros", post("Content-Length: 0005\r\n", "hello"));
  add("post_without_body", post("", ""));
  add("get_with_body", get("Host: x\r\nContent-Length: 5\r\n") + "hello");
  add("chunked", chunked("5\r\nhello\r\n0\r\n\r\n"));
  add("chunked_in_other_case", post("Transfer-Encoding: \tChunKed\t\r\n", "0\r\n\r\n"));
  add("chunk_size_with_zeros", chunked("0005\r\nhello\r\n000\r\n\r\n"));
  add("chunk_size_in_both_cases", chunked("A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n"));
  add("chunk_extensions", chunked("5;a\r\nhello\r\n5;a=b;c=\"d;\\\"e\"\r\nhello\r\n0;z\r\n\r\n"));
  add("chunk_extension_after_blanks", chunked("5 ; a = b\r\nhello\r\n0\r\n\r\n"));
  add("trailers", chunked("5\r\nhello\r\n0\r\nA: b\r\nC:\r\n\r\n"));
  cases.push_back({"http_1_0", "GET /x HTTP/1.0\r\n\r\n", {200}, true});
  cases.push_back({"close", get("Host: x\r\nConnection: x, Close\r\n"), {200}, true});
  cases.push_back({"close_with_more",
                   get("Host: x\r\nConnection: close\r\n") + get("Host: x\r\n"),
                   {200},
                   true});
}

// What another server might take for a request of its own.
inline const char* smuggled() { return "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"; }

inline void add_refused(std::vector<Rfc9112Case>& cases) {
  const auto add = [&](std::string name, const std::string& bytes) {
    cases.push_back({std::move(name), bytes + smuggled(), {400}, true});
  };
  const auto add_all = [&](const std::string& name, const std::vector<std::string>& values,
                           auto&& request) {
    for (size_t i = 0; i < values.size(); ++i)
      add(name + "_" + std::to_string(i), request(values[i]));
  };

  // The end of the body.
  add_all("transfer_encoding",
          {"xchunked",
           "chunkedx",
           "chunked, chunked",
           "gzip, chunked",
           "chunked, identity",
           "identity",
           "gzip",
           "",
           ",",
           "chunked,",
           ", chunked",
           "chunked;q=1",
           "\"chunked\"",
           "ch unked",
           raw("chunked\0"),
           raw("\0chunked"),
           "chunked\x0B",
           "\x0B"
           "chunked",
           "chunked\x0C",
           "chunked\x7F",
           "chunked\x80",
           "\r\n chunked",
           "\r\n\tchunked",
           "chunked\r\nTransfer-Encoding: chunked",
           "chunked\r\nTransfer-Encoding: identity",
           "identity\r\nTransfer-Encoding: chunked",
           "chunked\r\nContent-Length: 5",
           "x\rTransfer-Encoding: chunked",
           "x\nTransfer-Encoding: chunked"},
          [](const std::string& value) {
            return post("Transfer-Encoding: " + value + "\r\n", "0\r\n\r\n");
          });
  add("length_then_encoding",
      post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"));
  add("length_then_odd_encoding", post("Content-Length: 5\r\nTransfer-Encoding: x\r\n", "hello"));
  add("encoding_with_http_1_0",
      "POST /x HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  add("encoding_before_a_blank", post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"));
  add("encoding_after_a_blank", post(" Transfer-Encoding: chunked\r\n", "0\r\n\r\n"));
  add_all(
      "content_length",
      {"",
       "+5",
       "-5",
       "-0",
       "5,5",
       "5, 5",
       "5,",
       "5;",
       "0x5",
       "5 5",
       "5.0",
       "5e0",
       "five",
       raw("5\0"),
       "\x0B"
       "5",
       "5\x0B",
       "18446744073709551616",
       "99999999999999999999999999",
       "5\r\nContent-Length: 5",
       "5\r\nContent-Length: 6",
       "5\r\n 6"},
      [](const std::string& value) { return post("Content-Length: " + value + "\r\n", "hello"); });

  // Host.
  add("no_host", get(""));
  add_all("host",
          {"x\r\nHost: x", "x\r\nHost: y", "x\r\nhost: y", "",         "x y",  "x,\ty", "x/y",
           "x?y",          "u@x",          "x:80a",        "x:123456", ":80",  "[::1",  "[]",
           "[::1]x",       "http://x",     "x\\y",         "<x>",      "x%zz", "\x80"},
          [](const std::string& value) { return get("Host: " + value + "\r\n"); });

  // The first line.
  add_all("first_line",
          {"GET /x HTTP/1.2",
           "GET /x HTTP/2.0",
           "GET /x HTTP/0.9",
           "GET /x HTTP/1.10",
           "GET /x http/1.1",
           "GET /x HTTP/1.1 ",
           "GET /x  HTTP/1.1",
           "GET  /x HTTP/1.1",
           "GET\t/x HTTP/1.1",
           "GET /x\tHTTP/1.1",
           " GET /x HTTP/1.1",
           "GET /x",
           "GET",
           "/x",
           "GET /x y HTTP/1.1",
           "GET HTTP/1.1",
           "GET  HTTP/1.1",
           "G(T /x HTTP/1.1",
           "G\xC3\x89T /x HTTP/1.1",
           "GET /x#y HTTP/1.1",
           "GET x HTTP/1.1",
           "GET x:80 HTTP/1.1",
           "CONNECT x:80 HTTP/1.1",
           "OPTIONS * HTTP/1.1",
           "GET ftp://x/y HTTP/1.1",
           "GET http:///x HTTP/1.1",
           "GET http://u@x/y HTTP/1.1",
           "GET http://x?y HTTP/1.1",
           "GET http:/x HTTP/1.1",
           raw("GET /\0x HTTP/1.1"),
           "GET /\x01 HTTP/1.1",
           "GET /\x7F HTTP/1.1",
           "GET /x HTTP/1.1\r",
           "GET /x\rHTTP/1.1",
           "GET /x HTTP/1.1,"},
          [](const std::string& line) { return line + "\r\nHost: x\r\n\r\n"; });

  // Headers.
  add_all("header",
          {"A : b",      "A\t: b",      " A: b",     "\tA: b",      ": b",         "A",
           "A b",        "A(: b",       "A\x80: b",  raw("A\0: b"), raw("A: b\0"), raw("A: \0"),
           "A: b\x7F",   "A: b\x01",    "A: b\x1B",  "A: b\rc",     "A: b\nc: d",  "A: b\r",
           "A: b\r\n c", "A: b\r\n\tc", "A: b\r\n ", "A: b\r\r\n"},
          [](const std::string& line) { return get("Host: x\r\n" + line + "\r\n"); });
  add("folded_first_header", get(" Host: x\r\nHost: x\r\n"));
  add("lines_end_with_lf", "GET /x HTTP/1.1\nHost: x\n\n");
  add("lines_end_with_cr", "GET /x HTTP/1.1\rHost: x\r\r");
  add("head_ends_with_lf", "GET /x HTTP/1.1\r\nHost: x\r\n\n");
  add("garbage", raw("\0\1\2\3"));
  add("tls_hello", raw("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"));
  add("http_2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

  // Chunks.
  add_all("chunk_size",
          {"",
           " 5",
           "5 ",
           "5\t",
           "0x5",
           "+5",
           "-5",
           "g",
           "5g",
           "5,5",
           "5\x0B",
           raw("5\0"),
           "\n5",
           "10000000000000005",
           "00000000000000005",
           "5;",
           "5;;",
           "5;=b",
           "5;a=",
           "5;a=b c",
           "5;\"a\"",
           "5;a=\"b",
           "5;a=\"b\\\"",
           "5;a=(b",
           "5;a\rb",
           "5;a\nb",
           "5;a\x01",
           raw("5;a\0"),
           "5 a"},
          [](const std::string& size) { return chunked(size + "\r\nhello\r\n0\r\n\r\n"); });
  add_all("chunk_data",
          {"5\nhello\r\n0\r\n\r\n", "5\rhello\r\n0\r\n\r\n", "5\r\nhello\n0\r\n\r\n",
           "5\r\nhello0\r\n\r\n", "5\r\nhello!\r\n0\r\n\r\n", "5\r\nhello\r0\r\n\r\n",
           "5\r\nhello\r\n0\n\r\n", "5\r\nhello\r\n0\r\n\n", "5\r\nhello\r\n0\r\n\rX"},
          [](const std::string& body) { return chunked(body); });
  add_all("trailer",
          {"A", "A : b", " A: b", "A: b\r\n c", "A: b\rc", "A: b\nC: d", raw("A: \0"), ": b"},
          [](const std::string& line) { return chunked("0\r\n" + line + "\r\n\r\n"); });
}

}  // namespace rfc9112

inline std::vector<Rfc9112Case> rfc9112_cases() {
  std::vector<Rfc9112Case> cases;
  rfc9112::add_accepted(cases);
  rfc9112::add_refused(cases);
  return cases;
}

}  // namespace emblem
