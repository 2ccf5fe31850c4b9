#include "emblem/trainer.h"

#include <atomic>
#include <chrono>

#include "python/src/bindings.h"
#include "python/src/evaluation.h"

namespace emblem::python {
namespace {

// A training run and its request to stop.
struct Run {
  std::atomic<bool> is_cancelled = false;
  Held<Trainer> trainer;

  Trainer& open() const {
    EMBLEM_REQUIRE(trainer.is_set(), "the training has ended");
    return trainer.get();
  }
};

// Calls body() with the lock. Ctrl-C in it ends the run at the next good moment, where a checkpoint
// can be saved; other exceptions end it at once.
template <class Body>
void locked(Run* run, const Body& body) {
  const nb::gil_scoped_acquire lock;
  try {
    body();
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_KeyboardInterrupt)) throw;
    run->is_cancelled = true;
  }
}

std::function<void(const std::string&)> text_callback(Run* run, nb::object function) {
  if (function.is_none()) return nullptr;
  return [run, call = Shared(std::move(function))](const std::string& text) {
    locked(run, [&] { call.get()(text); });
  };
}

nb::dict step_dict(const StepInfo& info) {
  nb::dict event;
  event["step"] = info.step;
  event["epoch"] = info.epoch;
  event["rows"] = info.rows;
  event["expected_rows"] = info.expected_rows;
  event["loss"] = info.loss;
  event["samples_per_second"] = info.samples_per_second;
  event["metrics"] = info.metrics;
  return event;
}

// `function` is called for the steps whose report is due, `progress` up to ten times a second.
std::function<void(const StepInfo&)> step_callback(Run* run, nb::object function,
                                                   nb::object progress) {
  using Clock = std::chrono::steady_clock;
  if (function.is_none() && progress.is_none()) return nullptr;
  const bool shows = !progress.is_none(), reports = !function.is_none();
  return
      [run, reports, call = Shared(std::move(function)), shows, show = Shared(std::move(progress)),
       speed = 0.0, shown = Clock::time_point()](StepInfo info) mutable {
        if (info.is_due) speed = info.samples_per_second;
        if (reports && info.is_due) locked(run, [&] { call.get()(step_dict(info)); });
        if (!shows || Clock::now() - shown < std::chrono::milliseconds(100)) return;
        shown = Clock::now();
        info.samples_per_second = speed;
        locked(run, [&] { show.get()(step_dict(info)); });
      };
}

std::function<void(const EvaluationInfo&)> evaluation_callback(Run* run, nb::object function) {
  if (function.is_none()) return nullptr;
  return [run, call = Shared(std::move(function))](const EvaluationInfo& info) {
    locked(run, [&] {
      nb::dict event = to_dict(info.evaluation);
      event["step"] = info.step;
      event["epoch"] = info.epoch;
      call.get()(event);
    });
  };
}

void make_run(Run* self, const Pipeline& pipeline, const Data* train, const Data* valid,
              const std::string& model_dir, bool resume, const std::string& init_from,
              const std::string& device, int threads, const std::string& precision,
              int64_t max_steps, const std::string& ranks_from, nb::object on_step,
              nb::object on_progress, nb::object on_evaluation, nb::object on_checkpoint,
              nb::object on_warning, const std::vector<std::string>& metric_names,
              nb::object own_metrics) {
  new (self) Run();
  TrainingOptions options{
      .model_dir = model_dir,
      .resume = resume,
      .init_from = init_from,
      .device = device,
      .threads = threads,
      .precision = precision,
      .max_steps = max_steps,
      .ranks_from = ranks_from,
      .on_step = step_callback(self, std::move(on_step), std::move(on_progress)),
      .on_evaluation = evaluation_callback(self, std::move(on_evaluation)),
      .on_checkpoint = text_callback(self, std::move(on_checkpoint)),
      .on_warning = text_callback(self, std::move(on_warning)),
      .on_evaluating = [self](int64_t, int64_t) { locked(self, check_signals); },
      .own_metrics = own_metrics_of(metric_names, std::move(own_metrics)),
      .is_cancelled = [self] { return self->is_cancelled || Entry::is_ending(); }};
  try {
    self->trainer.set(unlocked([&] {
      return std::make_unique<Trainer>(pipeline, train != nullptr ? *train : Data(),
                                       valid != nullptr ? *valid : Data(), options);
    }));
  } catch (...) {
    self->~Run();  // __init__ failed: nanobind does not destroy it
    throw;
  }
}

nb::dict close(Run& run) {
  const TrainingResult result = unlocked([&] { return run.open().close(); });
  run.trainer.reset();
  nb::dict made;
  made["outcome"] = result.outcome;
  made["steps"] = result.steps;
  made["rows"] = result.rows;
  made["bad_rows"] = result.bad_rows;
  made["seconds"] = result.seconds;
  made["checkpoint"] = result.checkpoint;
  made["evaluation"] = to_dict(result.evaluation);
  made["rank"] = result.rank;
  made["ranks"] = result.ranks;
  return made;
}

}  // namespace

void add_trainer(nb::module_& module) {
  nb::class_<Run>(module, "Trainer")
      .def("__init__", &make_run, "pipeline"_a, "train"_a.none() = nb::none(),
           "valid"_a.none() = nb::none(), "model_dir"_a = "", "resume"_a = false,
           "init_from"_a = "", "device"_a = "cpu", "threads"_a = 0, "precision"_a = "",
           "max_steps"_a = 0, "ranks_from"_a = "none", "on_step"_a = nb::none(),
           "on_progress"_a = nb::none(), "on_evaluation"_a = nb::none(),
           "on_checkpoint"_a = nb::none(), "on_warning"_a = nb::none(),
           "metric_names"_a = std::vector<std::string>(), "own_metrics"_a = nb::none())
      .def("step", [](Run& run) { return unlocked([&] { return run.open().step(); }); })
      .def("evaluate",
           [](Run& run) { return to_dict(unlocked([&] { return run.open().evaluate(); })); })
      .def("save", [](Run& run) { return unlocked([&] { return run.open().save(); }); })
      .def_prop_ro("is_cancelled", [](const Run& run) { return run.is_cancelled.load(); })
      .def("cancel", [](Run& run) { run.is_cancelled = true; })
      .def("close", &close)
      .def("abandon", [](Run& run) { run.trainer.reset(); });
}

}  // namespace emblem::python
