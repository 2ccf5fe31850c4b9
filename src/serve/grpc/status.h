// serve/grpc/status.h - statuses and deadlines as gRPC's headers have them.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "core/system/caught_error.h"
#include "emblem/error.h"

namespace emblem {

// Status codes of gRPC; those without an ErrorCode have names here.
enum class GrpcCode {
  kOk = 0,
  kDeadlineExceeded = 4,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14
};

struct GrpcStatus {
  GrpcStatus() = default;
  GrpcStatus(GrpcCode its_code, std::string its_message)
      : code(its_code), message(std::move(its_message)) {}
  explicit GrpcStatus(const Error& error);

  bool ok() const { return code == GrpcCode::kOk; }

  GrpcCode code = GrpcCode::kOk;
  std::string message;
};

// What `body` throws as a status; OK when it throws nothing.
template <class Body>
GrpcStatus status_from(Body&& body) {
  try {
    body();
    return {};
  } catch (...) {
    return GrpcStatus(caught_error());
  }
}

// The value of grpc-message: bytes that a header cannot have, and '%', become "%0A".
std::string percent_encoded(std::string_view text);

// The value of grpc-timeout: up to 8 digits and one of H M S m u n. nullopt when it is not that.
std::optional<std::chrono::nanoseconds> parse_grpc_timeout(std::string_view text);

}  // namespace emblem
