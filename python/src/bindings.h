// python/src/bindings.h - what the parts of the module share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <unistd.h>

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "emblem/error.h"

namespace emblem::python {

namespace nb = nanobind;
using namespace nb::literals;

// Whether this process made the runtime; one that was forked from it has none of its threads.
bool owns_runtime();
// Throws where it did not.
void check_process();

// Whether the interpreter can still be called.
inline bool is_alive() {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsInitialized() && !Py_IsFinalizing();
#else
  return Py_IsInitialized();
#endif
}

// Python ends a thread that wants its lock while the interpreter ends: with frames of C++ below it,
// that aborts the process. So what is under way is counted, an interpreter that ends waits for it
// (end_all), and nothing enters afterwards.
class Entry {
 public:
  Entry() {
    ++active_;
    is_open_ = !is_ending_;
    if (!is_open_) --active_;
  }
  ~Entry() {
    if (is_open_) --active_;
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

  bool is_open() const { return is_open_; }

  static bool is_ending() { return is_ending_; }
  // By the thread that ends the interpreter, without the lock: cancels what is under way and waits
  // for it.
  static void end_all();
  static bool is_ended_here();  // whether this thread called end_all

 private:
  static std::atomic<int> active_;
  static std::atomic<bool> is_ending_;
  bool is_open_ = false;
};

// A Python object that threads of the engine may copy and drop. It is left alone once the
// interpreter has ended.
class Shared {
 public:
  explicit Shared(nb::object object)
      : object_(new nb::object(std::move(object)), [](nb::object* held) {
          const Entry entry;
          if (!is_alive() || !(entry.is_open() || Entry::is_ended_here())) return;
          const nb::gil_scoped_acquire lock;
          delete held;
        }) {}

  const nb::object& get() const { return *object_; }  // with the lock held

 private:
  std::shared_ptr<nb::object> object_;
};

// A call of the engine, from its beginning to where its thread has the lock again. Where the
// interpreter ends, its thread stays here for good; the thread that ends the interpreter does not.
class Call {
 public:
  Call() {
    if (!entry_->is_open()) wait_if_ending();
  }
  ~Call() {
    entry_.reset();
    wait_if_ending();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  static void wait_if_ending() {
    if (!Entry::is_ending() || Entry::is_ended_here()) return;
    const nb::gil_scoped_release release;
    while (true) ::pause();
  }

  std::optional<Entry> entry_{std::in_place};
};

// Runs body() without the lock; Python's exceptions of callbacks pass through.
template <class Body>
decltype(auto) unlocked(Body&& body) {
  const Call call;
  const nb::gil_scoped_release release;
  check_process();
  return body();
}

// An object with threads, which needs the lock no longer than it takes to let it go: its threads
// may wait for the lock to write to the log. A forked process, which has none of the threads, and
// an interpreter that ends leave it alone.
template <class T>
class Held {
 public:
  Held() = default;
  explicit Held(std::unique_ptr<T> object) : object_(std::move(object)) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { reset(); }

  void reset() {
    if (object_ == nullptr) return;
    if (!owns_runtime() || !is_alive()) return void(object_.release());
    const Call call;
    const nb::gil_scoped_release release;
    object_.reset();
  }
  void set(std::unique_ptr<T> object) { object_ = std::move(object); }
  bool is_set() const { return object_ != nullptr; }
  T& get() const { return *object_; }

 private:
  std::unique_ptr<T> object_;
};

// Lets signals (Ctrl-C) raise their exception here, in a callback of a long call.
inline void check_signals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

void add_data(nb::module_& module);
void add_index(nb::module_& module);
void add_pipeline(nb::module_& module);
void add_model(nb::module_& module);
void add_predictor(nb::module_& module);
void add_table(nb::module_& module);
void add_trainer(nb::module_& module);

}  // namespace emblem::python
