// serve/http/client_test.h - a plain HTTP client on a blocking socket, for tests that must see and
// send every byte.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace emblem {

struct TestResponse {
  int status = 0;                              // 0: the server closed without an answer
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;

  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

class TestClient {
 public:
  // `host`: the address of this machine that the server sees.
  explicit TestClient(uint16_t port, const char* host = "127.0.0.1")
      : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    inet_pton(AF_INET, host, &address.sin_addr);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{.tv_sec = 120, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    is_connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  virtual ~TestClient() { close(); }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  bool is_connected() const { return is_connected_; }
  int fd() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

  // Sends nothing more, but still reads.
  void half_close() { shutdown(fd_, SHUT_WR); }
  // Closes in a way that the server notices at once.
  void reset() {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close();
  }

  // False when the server does not take all of it.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = write_some(bytes);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  static std::string text(const std::string& method, const std::string& target,
                          const std::string& body = "", const std::string& headers = "") {
    return method + " " + target + " HTTP/1.1\r\nHost: test\r\n" + headers +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }

  TestResponse get(const std::string& target, const std::string& headers = "") {
    send("GET " + target + " HTTP/1.1\r\nHost: test\r\n" + headers + "\r\n");
    return receive();
  }
  TestResponse post(const std::string& target, const std::string& body = "",
                    const std::string& headers = "") {
    send(text("POST", target, body, headers));
    return receive();
  }

  // The next response. `without_body`: to HEAD, or an interim one.
  TestResponse receive(bool without_body = false) {
    TestResponse response;
    size_t end = 0;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      if (!fill()) return response;
    }
    const std::string head = buffer_.substr(0, end + 2);
    buffer_.erase(0, end + 4);
    response.status = std::stoi(head.substr(head.find(' ') + 1));
    for (size_t at = head.find("\r\n") + 2; at < head.size();) {
      const size_t colon = head.find(':', at), line = head.find("\r\n", at);
      std::string name = head.substr(at, colon - at);
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      response.headers[name] = head.substr(colon + 2, line - colon - 2);
      at = line + 2;
    }
    if (without_body || response.status == 100) return response;
    const size_t length = std::stoul(response.header("content-length"));
    while (buffer_.size() < length) {
      if (!fill()) {
        ADD_FAILURE() << "the body ends after " << buffer_.size() << " of " << length << " bytes";
        return response;
      }
    }
    response.body = buffer_.substr(0, length);
    buffer_.erase(0, length);
    return response;
  }

  // Whether the server has closed the connection and sent nothing more before.
  // Waits for it; false when something comes, or nothing for two minutes.
  bool is_closed_by_server() {
    errno = 0;
    return buffer_.empty() && !fill() && errno != EAGAIN;
  }

 protected:
  virtual ssize_t write_some(std::string_view bytes) {
    return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  virtual ssize_t read_some(char* bytes, size_t size) { return recv(fd_, bytes, size, 0); }

 private:
  bool fill() {
    char bytes[65536];
    const ssize_t got = read_some(bytes, sizeof(bytes));
    if (got <= 0) return false;
    buffer_.append(bytes, static_cast<size_t>(got));
    return true;
  }

  int fd_;
  bool is_connected_ = false;
  std::string buffer_;
};

}  // namespace emblem
