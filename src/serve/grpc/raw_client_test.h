// serve/grpc/raw_client_test.h - a client that sends whatever frames a test wants.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <string>

#include "serve/grpc/framing.h"
#include "serve/http2/frames_test.h"

namespace emblem {

class RawClient {
 public:
  using Headers = std::map<std::string, std::string>;

  // `host`: the address of this machine that the server sees.
  explicit RawClient(uint16_t port, const std::string& settings = "",
                     const char* host = "127.0.0.1") {
    socket_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    inet_pton(AF_INET, host, &address.sin_addr);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{.tv_sec = 120, .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    nghttp2_hd_inflate_new(&inflater_);
    send(kPreface + frame(kSettingsFrame, 0, 0, settings));
  }
  ~RawClient() {
    close(socket_);
    nghttp2_hd_inflate_del(inflater_);
  }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void send(const std::string& bytes) {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t some = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (some <= 0) return;  // the server has closed: receive() shows it
      sent += static_cast<size_t>(some);
    }
  }

  // A call with one message.
  void call(uint32_t stream, const std::string& method, const std::string& message) {
    std::string framed(kGrpcPrefixBytes, '\0');
    framed += message;
    write_prefix(framed, false);
    send(frame(kHeadersFrame, kEndHeaders, stream, request_block(method)) +
         frame(kDataFrame, kEndStream, stream, framed));
  }

  // The next frame; nullopt when the server has closed the connection.
  std::optional<Frame> receive() {
    for (;;) {
      if (auto frames = split_frames(input_); !frames.empty()) {
        input_.erase(0, 9 + frames[0].payload.size());
        return frames[0];
      }
      char bytes[16384];
      const ssize_t some = recv(socket_, bytes, sizeof(bytes), 0);
      if (some <= 0) return std::nullopt;
      input_.append(bytes, static_cast<size_t>(some));
    }
  }

  // The next frame of a kind; others are skipped.
  std::optional<Frame> receive(FrameType type) {
    while (auto one = receive()) {
      if (one->type == kHeadersFrame && type != kHeadersFrame) headers_of(*one);
      if (one->type == type) return one;
    }
    return std::nullopt;
  }

  // The headers and trailers of a stream's answer, until its end; empty when there is none.
  Headers answer(uint32_t stream) {
    Headers all;
    while (auto one = receive()) {
      if (one->type == kHeadersFrame) {
        const Headers some = headers_of(*one);
        if (one->stream == stream) all.insert(some.begin(), some.end());
      }
      if (one->type == kDataFrame && !one->payload.empty()) {
        const uint32_t read = htonl(static_cast<uint32_t>(one->payload.size()));
        const std::string more(reinterpret_cast<const char*>(&read), sizeof(read));
        send(frame(kWindowUpdateFrame, 0, 0, more) +
             frame(kWindowUpdateFrame, 0, one->stream, more));
      }
      const bool is_last = one->type == kRstStreamFrame ||
                           ((one->type == kHeadersFrame || one->type == kDataFrame) &&
                            (one->flags & kEndStream) != 0);
      if (one->stream == stream && is_last) return all;
    }
    return {};
  }

  // Returns when the server has read all that was sent before.
  void wait_until_read() {
    send(frame(kPingFrame, 0, 0, std::string(8, 'p')));
    receive(kPingFrame);
  }

  bool is_closed_by_server() {
    while (receive()) {
    }
    return true;
  }

 private:
  // All must be decoded, in order: they share a table.
  Headers headers_of(const Frame& one) {
    Headers all;
    const auto* at = reinterpret_cast<const uint8_t*>(one.payload.data());
    size_t left = one.payload.size();
    for (;;) {
      nghttp2_nv field{};
      int flags = 0;
      const ssize_t used = nghttp2_hd_inflate_hd2(inflater_, &field, &flags, at, left, 1);
      if (used < 0) return all;
      at += used;
      left -= static_cast<size_t>(used);
      if (flags & NGHTTP2_HD_INFLATE_EMIT)
        all.emplace(std::string(reinterpret_cast<char*>(field.name), field.namelen),
                    std::string(reinterpret_cast<char*>(field.value), field.valuelen));
      if (flags & NGHTTP2_HD_INFLATE_FINAL) break;
    }
    nghttp2_hd_inflate_end_headers(inflater_);
    return all;
  }

  int socket_ = -1;
  nghttp2_hd_inflater* inflater_ = nullptr;
  std::string input_;
};

}  // namespace emblem
