// core/system/cancel_token.h - a request to end long work at a good moment.
#pragma once

#include <functional>
#include <utility>

namespace emblem {

// Work is given one and asks it now and then; who made it decides: a signal, a flag of another
// thread. Copies ask the same.
class CancelToken {
 public:
  CancelToken() = default;  // nothing is ever cancelled
  // `is_cancelled` may be called from any thread, and stays true once it is.
  explicit CancelToken(std::function<bool()> is_cancelled) : asked_(std::move(is_cancelled)) {}

  bool is_cancelled() const { return asked_ && asked_(); }

 private:
  std::function<bool()> asked_;
};

}  // namespace emblem
