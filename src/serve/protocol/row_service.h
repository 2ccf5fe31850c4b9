// serve/protocol/row_service.h - what a table server answers front ends; the messages are those of
// ps/remote/row_message.h.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "serve/protocol/memory_budget.h"

namespace emblem {

// Thread-safe.
class RowService {
 public:
  virtual ~RowService() = default;

  // Throw kInvalidArgument for what is not such a request, kNotFound for a version that is not
  // held. `lease` grows by what is allocated, before it is, and is left with the bytes of the
  // answer; kUnavailable when its budget is exhausted.
  virtual std::vector<std::byte> rows(std::span<const std::byte> request,
                                      MemoryBudget::Lease& lease) = 0;
  virtual std::string status(std::span<const std::byte> request) = 0;
};

}  // namespace emblem
