// A folder as an S3 bucket behind a link of a given latency and rate, for bench/remote/run.py:
// read-only, path style, without signatures. One thread per connection; bodies go from the page
// cache to the socket.
//
//   g++ -O2 -std=c++20 -pthread bench/remote/link_server.cc -o link_server
//   link_server FOLDER PORT LATENCY_MS MB_PER_S        serves FOLDER/BUCKET/KEY as s3://BUCKET/KEY
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

std::string root;
Seconds latency{0};
double bytes_per_second = 0;

// When the link has sent `bytes` more, after all that was asked for before.
Clock::time_point reserve_link(size_t bytes) {
  static std::mutex mutex;
  static Clock::time_point free_at = Clock::now();
  const std::lock_guard lock(mutex);
  free_at = std::max(free_at, Clock::now()) + std::chrono::duration_cast<Clock::duration>(Seconds(
                                                  static_cast<double>(bytes) / bytes_per_second));
  return free_at;
}

bool send_all(int socket, const std::string& text) {
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t count = ::send(socket, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) return false;
    sent += static_cast<size_t>(count);
  }
  return true;
}

bool send_file(int socket, const std::string& path, off_t offset, size_t bytes) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  constexpr size_t kPiece = 256 << 10;
  bool good = file >= 0;
  while (good && bytes > 0) {
    size_t piece = std::min(bytes, kPiece);
    if (bytes_per_second > 0) std::this_thread::sleep_until(reserve_link(piece));
    bytes -= piece;
    while (good && piece > 0) {
      const ssize_t count = ::sendfile(socket, file, &offset, piece);
      good = count > 0;
      piece -= good ? static_cast<size_t>(count) : 0;
    }
  }
  if (file >= 0) ::close(file);
  return good;
}

std::string decoded(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      plain += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

std::string time_text(const struct stat& status, const char* format) {
  char text[64];
  std::tm parts{};
  ::gmtime_r(&status.st_mtime, &parts);
  std::strftime(text, sizeof text, format, &parts);
  return text;
}

std::string answer(const char* status, const std::string& headers, size_t bytes) {
  return std::string("HTTP/1.1 ") + status + "\r\n" + headers +
         "Content-Length: " + std::to_string(bytes) + "\r\n\r\n";
}

// All keys below a prefix, in one page.
std::string listing(const std::string& bucket, const std::string& prefix) {
  std::map<std::string, std::string> rows;
  for (const auto& entry : fs::recursive_directory_iterator(root + "/" + bucket)) {
    struct stat status {};
    if (!entry.is_regular_file() || ::stat(entry.path().c_str(), &status) != 0) continue;
    const std::string key = entry.path().string().substr(root.size() + bucket.size() + 2);
    if (!key.starts_with(prefix)) continue;
    rows[key] = "<Contents><Key>" + key + "</Key><LastModified>" +
                time_text(status, "%Y-%m-%dT%H:%M:%S.000Z") +
                "</LastModified><ETag>x</ETag><Size>" + std::to_string(status.st_size) +
                "</Size></Contents>";
  }
  std::string text = "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>" +
                     bucket + "</Name><Prefix>" + prefix + "</Prefix><KeyCount>" +
                     std::to_string(rows.size()) +
                     "</KeyCount><MaxKeys>100000</MaxKeys><IsTruncated>false</IsTruncated>";
  for (const auto& [key, row] : rows) text += row;
  return text + "</ListBucketResult>";
}

bool answer_request(int socket, const std::string& request) {
  const bool is_head = request.starts_with("HEAD ");
  const size_t begin = request.find(' ') + 1;
  const std::string target = decoded(request.substr(begin, request.find(' ', begin) - begin));
  const size_t question = target.find('?');
  const std::string path = target.substr(0, question);
  std::this_thread::sleep_for(latency);
  if (question != std::string::npos && target.find("list-type=2") != std::string::npos) {
    const size_t at = target.find("prefix=");
    std::string prefix = at == std::string::npos ? "" : target.substr(at + 7);
    prefix = prefix.substr(0, prefix.find('&'));
    const std::string body = listing(path.substr(1), prefix);
    return send_all(socket,
                    answer("200 OK", "Content-Type: application/xml\r\n", body.size()) + body);
  }
  struct stat status {};
  if (::stat((root + path).c_str(), &status) != 0 || !S_ISREG(status.st_mode))
    return send_all(socket, answer("404 Not Found", "", 0));
  const auto size = static_cast<size_t>(status.st_size);
  const std::string headers = "ETag: \"" + std::to_string(status.st_mtim.tv_nsec) +
                              "\"\r\nAccept-Ranges: bytes\r\nLast-Modified: " +
                              time_text(status, "%a, %d %b %Y %H:%M:%S GMT") + "\r\n";
  if (is_head) return send_all(socket, answer("200 OK", headers, size));
  size_t from = 0, to = size - 1;
  const size_t range = request.find("bytes=");
  if (range != std::string::npos) std::sscanf(request.c_str() + range, "bytes=%zu-%zu", &from, &to);
  to = std::min(to, size - 1);
  const std::string content = "Content-Range: bytes " + std::to_string(from) + "-" +
                              std::to_string(to) + "/" + std::to_string(size) + "\r\n";
  return send_all(socket, answer(range == std::string::npos ? "200 OK" : "206 Partial Content",
                                 headers + content, to - from + 1)) &&
         send_file(socket, root + path, static_cast<off_t>(from), to - from + 1);
}

void serve(int socket) {
  const int one = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  std::string received;
  char buffer[16384];
  while (true) {
    const size_t end = received.find("\r\n\r\n");
    if (end != std::string::npos) {
      const std::string request = received.substr(0, end);
      received.erase(0, end + 4);
      if (!answer_request(socket, request)) break;
      continue;
    }
    const ssize_t count = ::recv(socket, buffer, sizeof buffer, 0);
    if (count <= 0) break;
    received.append(buffer, static_cast<size_t>(count));
  }
  ::close(socket);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: link_server FOLDER PORT LATENCY_MS MB_PER_S\n");
    return 2;
  }
  std::signal(SIGPIPE, SIG_IGN);
  root = argv[1];
  latency = Seconds(std::atof(argv[3]) / 1e3);
  bytes_per_second = std::atof(argv[4]) * 1e6;
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int one = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(std::atoi(argv[2])));
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener, 256) != 0) {
    std::perror("link_server");
    return 1;
  }
  socklen_t length = sizeof address;
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  std::printf("http://127.0.0.1:%d\n", ntohs(address.sin_port));
  std::fflush(stdout);
  while (true) {
    const int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket >= 0) std::thread(serve, socket).detach();
  }
}
