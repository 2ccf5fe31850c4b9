#include "serve/engine/servable.h"

#include "core/caught_error.h"

namespace emblem {

void Engine::run(std::span<EngineTask> tasks, EngineTimes& times) noexcept {
  times.start = times.input_end = times.infer_end = times.output_end =
      std::chrono::steady_clock::now();
  try {
    compute(tasks, times);
  } catch (...) {
    const Error error = caught_error();
    for (EngineTask& task : tasks) {
      task.outputs.clear();
      if (!task.error) task.error = error;
    }
  }
}

}  // namespace emblem
