// tune/tune.h - a search for the settings of a first pipeline: width, rates, regularization and the
// like, by training on a part of the rows and comparing by the others.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/device/context.h"
#include "core/system/cancel_token.h"
#include "init/starter.h"

namespace emblem {

struct TuneOptions {
  static constexpr int64_t kFewestSteps = 1000, kMostSteps = 1'000'000'000;

  int64_t steps = 0;  // training steps of all trials together
  uint64_t seed = 1;  // decides which rows are kept, and what training draws
  CancelToken cancel;
  // Steps so far, and the trial that they are of. Called after each step.
  std::function<void(int64_t steps, const std::string& trial)> on_step;
};

// Settings that were trained with.
struct TuneTrial {
  std::string changed;  // what differs from the best before it: "dense_lr 0.003"
  double loss = 0;      // the least on rows that were kept, the mean over parts; NaN: it failed
  double change = 0;    // of the loss, as a share of that of the best before it on the same parts
  int64_t steps = 0;    // that it took
  bool is_better = false;  // it became the best
};

struct Tuned {
  PipelineSettings settings;      // the best
  std::vector<TuneTrial> trials;  // the first with what the draft chose
  std::string metric;             // whose values are the losses

  // For the terminal: what was tried, and what won.
  std::string summary() const;
};

// Changes one setting at a time, keeps what lowers the loss, and continues until no change lowers
// it or the steps are spent. Rows to compare by are kept from the training data: eval_input is
// not read, and what the pipeline says of held-out rows stays as it is. Equal arguments give equal
// results. Throws Error where options or data allow no search; kCancelled when it was cancelled.
Tuned tune(const Context& context, const StarterDraft& draft, const TuneOptions& options);

}  // namespace emblem
