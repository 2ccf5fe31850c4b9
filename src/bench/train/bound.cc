#include "bench/train/bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace emblem {
namespace {

constexpr std::array kBounds = {Bound::kData, Bound::kCopy, Bound::kDense, Bound::kEmbedding,
                                Bound::kLaunch};
// Other parts within this distance of the largest are mentioned.
constexpr double kNear = 0.15;

const char* meaning_of(Bound bound) {
  switch (bound) {
    case Bound::kData:
      return "is spent waiting for batches to be read and decoded";
    case Bound::kCopy:
      return "is spent waiting for batches to be copied to the GPU";
    case Bound::kDense:
      return "is spent in layers and their gradients";
    case Bound::kEmbedding:
      return "is spent looking up and updating rows of tables";
    case Bound::kLaunch:
      return "does not depend on the batch: launching kernels and tasks, and reading the dense "
             "weights";
  }
  return "";
}

std::string change_for(Bound bound, const StepCircumstances& at) {
  const bool gpu = at.device == Device::kCuda;
  switch (bound) {
    case Bound::kData:
      return "Raise data_config.num_workers, use a binary format (emblem convert --format raw) or "
             "a faster disk, and bundle small files; emblem bench loader recommends settings.";
    case Bound::kCopy:
      return "Send fewer bytes per sample (drop features that the model does not need), and check "
             "for other traffic on the bus.";
    case Bound::kDense:
      if (gpu && at.precision == DType::kF32)
        return "Set train_config.mixed_precision to BF16; narrower or fewer layers help too.";
      return gpu ? "Only narrower or fewer layers, or a faster GPU, help."
                 : "Use more threads or a GPU (--device cuda); narrower or fewer layers help too.";
    case Bound::kEmbedding:
      if (at.cached_rows)
        return "Give the tables more of the GPU's memory (train_config.device_bytes); a smaller "
               "embedding_dim or 16-bit rows help too.";
      return "A smaller embedding_dim, 16-bit rows, an optimizer with less state (rowwise_adagrad) "
             "or fewer keys per sample help.";
    case Bound::kLaunch:
      return "Use a larger data_config.batch_size.";
  }
  return "";
}

// a - b, or 0 if that is negative.
double excess(double a, double b) { return std::max(0.0, a - b); }

// Time of a step spent waiting for its batch, without what overlaps with other work.
double exposed_wait(const StepTimes& times, double stages) {
  const double waited = times.load + times.transfer;
  if (waited <= 0 || times.resident_step <= 0) return waited;
  // Rows of a repeated batch are cached, so its step may be shorter for that reason, too: the
  // stages are a second bound.
  return std::min(excess(times.step, times.resident_step), excess(times.step, stages));
}

}  // namespace

const char* name_of(Bound bound) {
  switch (bound) {
    case Bound::kData:
      return "data";
    case Bound::kCopy:
      return "copy";
    case Bound::kDense:
      return "dense";
    case Bound::kEmbedding:
      return "embedding";
    case Bound::kLaunch:
      return "launch";
  }
  return "";
}

double StepShares::of(Bound bound) const {
  switch (bound) {
    case Bound::kData:
      return data;
    case Bound::kCopy:
      return copy;
    case Bound::kDense:
      return dense;
    case Bound::kEmbedding:
      return embedding;
    case Bound::kLaunch:
      return launch;
  }
  return 0;
}

StepShares shares_of(const StepTimes& times) {
  const StageSeconds& all = times.stages;
  const auto growing = [&](double StageSeconds::*stage) {
    return all.*stage * (1 - times.fixed_share.*stage);
  };
  StepShares found;
  found.dense = growing(&StageSeconds::forward) + growing(&StageSeconds::backward) +
                growing(&StageSeconds::dense_update);
  found.embedding = growing(&StageSeconds::lookup) + growing(&StageSeconds::update);
  const double stages = all.lookup + all.forward + all.backward + all.update + all.dense_update;
  const double waited = times.load + times.transfer;
  const double exposed = exposed_wait(times, stages);
  if (waited > 0) {
    found.data = exposed * times.load / waited;
    found.copy = exposed * times.transfer / waited;
  }
  // Timing the stages may make a step slightly longer.
  found.launch = stages - found.dense - found.embedding + excess(times.step, stages + exposed);
  const double total = found.data + found.copy + found.dense + found.embedding + found.launch;
  if (!(total > 0)) return {};
  for (double* part : {&found.data, &found.copy, &found.dense, &found.embedding, &found.launch})
    *part /= total;
  return found;
}

Bound bound_of(const StepShares& shares) {
  return *std::max_element(kBounds.begin(), kBounds.end(),
                           [&](Bound a, Bound b) { return shares.of(a) < shares.of(b); });
}

std::string explain_bound(const StepShares& shares, const StepCircumstances& circumstances) {
  const Bound first = bound_of(shares);
  std::string text =
      fmt::format("Bound by {}: {:.0f} % of the time {}. {}", name_of(first),
                  100 * shares.of(first), meaning_of(first), change_for(first, circumstances));
  for (const Bound other : kBounds)
    if (other != first && shares.of(other) > shares.of(first) - kNear)
      text += fmt::format(" Next: {}, {:.0f} %.", name_of(other), 100 * shares.of(other));
  return text;
}

}  // namespace emblem
