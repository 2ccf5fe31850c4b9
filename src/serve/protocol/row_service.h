// serve/protocol/row_service.h - what a table server answers front ends; the messages are those of
// ps/remote/row_message.h.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace emblem {

// Thread-safe.
class RowService {
 public:
  virtual ~RowService() = default;

  // Throw kInvalidArgument for what is not such a request, kNotFound for a version that is not
  // held.
  virtual std::vector<std::byte> rows(std::span<const std::byte> request) = 0;
  virtual std::string status(std::span<const std::byte> request) = 0;
};

}  // namespace emblem
