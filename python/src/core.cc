// python/src/core.cc - the module emblem._core: the public C++ headers as Python objects. What
// users see is python/emblem; this module converts, releases the lock, and turns errors into
// exceptions.
#include <unistd.h>

#include <chrono>
#include <thread>

#include "emblem/api.h"
#include "emblem/runtime.h"
#include "python/src/bindings.h"

namespace nb = nanobind;

namespace emblem::python {
namespace {

std::unique_ptr<Runtime> runtime;
pid_t owner = 0;  // the process that made the runtime
std::thread::id ender;  // the thread that ends the interpreter

// Lines of the log are passed on with the lock held, by threads of the engine as well.
void start(nb::object log, int lowest, const std::string& program) {
  EMBLEM_REQUIRE(runtime == nullptr, "the runtime was started already");
  RuntimeOptions options{.lowest = static_cast<LogLevel>(lowest), .program = program};
  options.log = [log = Shared(std::move(log))](LogLevel level, const std::string& line) {
    const Entry entry;
    if (!is_alive() || !entry.is_open()) return;
    const nb::gil_scoped_acquire lock;
    try {
      log.get()(static_cast<int>(level), line);
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("emblem's log");
    }
  };
  runtime = std::make_unique<Runtime>(options);
  owner = ::getpid();
}

void stop() {
  if (!owns_runtime()) return;
  Entry::end_all();
  runtime.reset();
  Runtime::finalize_stores();
}

const char* name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kTooLarge:
      return "invalid_argument";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kCorruption:
      return "corruption";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kOutOfMemory:
      return "out_of_memory";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kUnauthenticated:
      return "unauthenticated";
    case ErrorCode::kPermissionDenied:
      return "permission_denied";
    case ErrorCode::kInternal:
      break;
  }
  return "internal";
}

void translate(const std::exception_ptr& thrown, void* type) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    const Call call;  // the type's __init__ runs in the interpreter
    PyObject* const made = PyObject_CallFunction(static_cast<PyObject*>(type), "ss", error.what(),
                                                 name_of(error.code()));
    if (made == nullptr) return;
    PyErr_SetObject(static_cast<PyObject*>(type), made);
    Py_DECREF(made);
  }
}

}  // namespace

std::atomic<int> Entry::active_ = 0;
std::atomic<bool> Entry::is_ending_ = false;

void Entry::end_all() {
  ender = std::this_thread::get_id();
  is_ending_ = true;
  while (active_ > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

bool Entry::is_ended_here() { return is_ending_ && ender == std::this_thread::get_id(); }

bool owns_runtime() { return runtime != nullptr && owner == ::getpid(); }

void check_process() {
  EMBLEM_REQUIRE(runtime != nullptr, "emblem was ended; start another process");
  EMBLEM_REQUIRE(owner == ::getpid(),
                 "this process was forked after emblem was used, and has none of its threads; use "
                 "multiprocessing.get_context(\"spawn\"), or import emblem after the fork");
}

}  // namespace emblem::python

NB_MODULE(_core, module) {
  using namespace emblem::python;
  nb::set_leak_warnings(false);  // arrays that live until the end of the process
  module.attr("version") = emblem::kVersion;
  module.def("start", &start, "log"_a, "lowest"_a, "program"_a);
  module.def("stop", &stop, nb::call_guard<nb::gil_scoped_release>());
  module.def("set_error_type", [](nb::object type) {
    nb::register_exception_translator(translate, type.release().ptr());
  });
  add_data(module);
  add_index(module);
  add_pipeline(module);
  add_model(module);
  add_predictor(module);
  add_table(module);
  add_trainer(module);
}
