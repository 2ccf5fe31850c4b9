#include "tune/tune.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>

#include "config/load/load.h"
#include "core/files/temporary_folder.h"
#include "core/text/text.h"
#include "data/format/local_input.h"
#include "data/source/storage.h"
#include "emblem/error.h"
#include "init/column_choice.h"
#include "train/run/trainer.h"

namespace emblem {
namespace {

// ---- moves ----

// A change of settings that a search tries.
struct Move {
  // Changes the settings. False: there is no such change of these.
  std::function<bool(PipelineSettings& settings)> apply;
  // The setting that it changes, with its value: "dense_lr 0.003".
  std::function<std::string(const PipelineSettings& settings)> text;
};

// A number of TrainingChoice times `factor`, within [least, most].
template <class Number>
Move scaled(const std::string& name, Number TrainingChoice::*member, double factor, double least,
            double most) {
  return {[=](PipelineSettings& settings) {
            Number& value = (*settings.training).*member;
            const double wanted = static_cast<double>(value) * factor;
            if (wanted < least * 0.999 || wanted > most * 1.001) return false;
            value = static_cast<Number>(wanted);
            return true;
          },
          [=](const PipelineSettings& settings) {
            return fmt::format("{} {:.3g}", name,
                               static_cast<double>((*settings.training).*member));
          }};
}

// The neighbour of a number among `values`, `by` places on.
template <class Number>
Move stepped(const std::string& name, Number TrainingChoice::*member, std::vector<Number> values,
             int by) {
  return {[=](PipelineSettings& settings) {
            Number& value = (*settings.training).*member;
            const auto found = std::lower_bound(values.begin(), values.end(), value);
            const int64_t at = found - values.begin() + by;
            if (at < 0 || at >= std::ssize(values) || values[static_cast<size_t>(at)] == value)
              return false;
            value = values[static_cast<size_t>(at)];
            return true;
          },
          [=](const PipelineSettings& settings) {
            return fmt::format("{} {:g}", name, static_cast<double>((*settings.training).*member));
          }};
}

Move widened(double factor) {
  return {[=](PipelineSettings& settings) {
            constexpr int64_t kNarrowest = 8, kWidest = 1024;
            for (int64_t& units : settings.training->hidden) {
              units = static_cast<int64_t>(static_cast<double>(units) * factor);
              if (units < kNarrowest || units > kWidest) return false;
            }
            return true;
          },
          [](const PipelineSettings& settings) {
            return fmt::format("hidden_units [{}]", fmt::join(settings.training->hidden, ", "));
          }};
}

Move with_model(const std::string& model) {
  return {[=](PipelineSettings& settings) {
            if (settings.model == model) return false;
            settings.model = model;
            return true;
          },
          [](const PipelineSettings& settings) { return fmt::format("model {}", settings.model); }};
}

bool has_numbers(const StarterDraft& draft) {
  return std::ranges::any_of(
      draft.columns(), [](const ColumnChoice& column) { return column.use == ColumnUse::kNumber; });
}

bool has_categories(const StarterDraft& draft) {
  return std::ranges::any_of(draft.columns(), [](const ColumnChoice& column) {
    return column.use == ColumnUse::kCategory;
  });
}

// In the order in which they are tried: those that usually gain most come first.
std::vector<Move> moves_for(const StarterDraft& draft) {
  using Choice = TrainingChoice;
  constexpr double kThird = 1.0 / 3;
  const std::vector<double> dropouts{0, 0.1, 0.2, 0.3, 0.4, 0.5};
  const std::vector<double> penalties{0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2};
  std::vector<Move> moves{widened(2), scaled("dense_lr", &Choice::dense_lr, 3, 1e-5, 0.1)};
  if (draft.options().pipeline.model.empty()) {
    const bool is_single = draft.task() != LabelTask::kClasses;
    moves.push_back(with_model("dcn_v2"));
    if (is_single) moves.push_back(with_model("wide_and_deep"));
    if (is_single && has_categories(draft)) moves.push_back(with_model("deepfm"));
  }
  moves.push_back(scaled("dense_lr", &Choice::dense_lr, kThird, 1e-5, 0.1));
  moves.push_back(stepped("weight_l2", &Choice::weight_l2, penalties, 1));
  moves.push_back(stepped("weight_l2", &Choice::weight_l2, penalties, -1));
  moves.push_back(stepped("dropout_ratio", &Choice::dropout, dropouts, 1));
  moves.push_back(stepped("dropout_ratio", &Choice::dropout, dropouts, -1));
  if (has_categories(draft)) {
    moves.push_back(scaled("sparse_lr", &Choice::sparse_lr, 3, 1e-4, 1));
    moves.push_back(scaled("sparse_lr", &Choice::sparse_lr, kThird, 1e-4, 1));
  }
  if (has_numbers(draft)) {
    const std::vector<int64_t> bins{0, 8, 16, 32, 64};
    moves.push_back(stepped("bins", &Choice::bins, bins, 1));
    moves.push_back(stepped("bins", &Choice::bins, bins, -1));
  }
  moves.push_back(widened(0.5));
  if (has_categories(draft)) {
    moves.push_back(scaled("embedding_dim", &Choice::embedding_dim, 2, 2, 64));
    moves.push_back(scaled("embedding_dim", &Choice::embedding_dim, 0.5, 2, 64));
  }
  moves.push_back(scaled("batch_size", &Choice::batch, 2, 16, 16384));
  moves.push_back(scaled("batch_size", &Choice::batch, 0.5, 16, 16384));
  moves.push_back(stepped("ensemble_size", &Choice::ensemble, {1, 4, 8}, 1));
  return moves;
}

// ---- search ----

// A gain of less is chance.
constexpr double kLeastGain = 1e-3;
// Share of the steps, so that the first trials leave some to the others.
constexpr int64_t kShareOfATrial = 4;
constexpr double kFewestRows = 200;

class Search {
 public:
  Search(const Context& context, const StarterDraft& draft, const TuneOptions& options)
      : context_(context),
        draft_(draft),
        options_(options),
        metric_(stopping_metric(draft.task())),
        moves_(moves_for(draft)),
        parts_(draft.rows() < 2e4 ? 2 : 1),
        best_(draft.settings()) {}

  Tuned run() {
    const std::string first = "as chosen by the data";
    tried_.insert(draft_.text(best_));
    losses_ = losses_of(best_, first, {});
    trials_.push_back({first, mean(losses_), 0, steps_, true});
    while (try_moves()) {
    }
    return {best_, trials_, metric_};
  }

 private:
  // Whether a change of the best was better.
  bool try_moves() {
    bool has_gained = false;
    for (const Move& move : moves_)
      while (steps_ < options_.steps && try_move(move)) has_gained = true;
    return has_gained && steps_ < options_.steps;
  }

  bool try_move(const Move& move) {
    PipelineSettings changed = best_;
    if (!move.apply(changed) || !tried_.insert(draft_.text(changed)).second) return false;
    const int64_t before = steps_;
    TuneTrial trial{.changed = move.text(changed)};
    const std::vector<double> losses = losses_of(changed, trial.changed, losses_);
    trial.steps = steps_ - before;
    trial.loss = mean(losses);
    const double before_it = mean({losses_.begin(), losses_.begin() + std::ssize(losses)});
    trial.change = trial.loss / before_it - 1;
    trial.is_better = losses.size() == losses_.size() && trial.change < -kLeastGain;
    trials_.push_back(trial);
    if (!trial.is_better) return false;
    best_ = changed;
    losses_ = losses;
    return true;
  }

  static double mean(const std::vector<double>& losses) {
    double sum = 0;
    for (const double loss : losses) sum += loss;
    return sum / static_cast<double>(losses.size());
  }

  // The loss on each part that is kept, as long as it is below the one of `before` there.
  std::vector<double> losses_of(const PipelineSettings& settings, const std::string& name,
                                const std::vector<double>& before) {
    std::vector<double> losses;
    for (int part = 0; part < parts_ && steps_ < options_.steps; ++part) {
      losses.push_back(learn(settings, part, name));
      const bool is_worse = !before.empty() && !(losses.back() < before[losses.size() - 1]);
      if (is_worse || std::isnan(losses.back())) break;
    }
    return losses;
  }

  // What it costs to compare by rows is bounded.
  config::PipelineConfig config_for(PipelineSettings settings, int part) {
    constexpr double kMostKept = 1e5;
    settings.eval_input.clear();
    settings.holdout_ratio = std::min(0.2, kMostKept / draft_.rows());
    settings.model_dir = cat(folder_.path(), "/", ++trained_);
    settings.training->patience = std::max<int64_t>(settings.training->patience / 2, 2);
    config::PipelineConfig config = parse_pipeline(draft_.text(settings), "the pipeline");
    if (is_memory_address(config.train_input_path()))
      config.mutable_data_config()->set_dataset_type(config::ArrowDataset);
    else
      follow_local_files(&config);
    config.mutable_train_config()->set_seed(options_.seed + static_cast<uint64_t>(part));
    config.mutable_train_config()->mutable_early_stopping()->set_restore_best(false);
    return config;
  }

  // The least loss of the evaluations of a training; NaN where it fails.
  double learn(const PipelineSettings& settings, int part, const std::string& name) {
    const config::PipelineConfig config = config_for(settings, part);
    double least = std::numeric_limits<double>::quiet_NaN();
    const auto take = [&](const Evaluation& evaluation) {
      least = std::fmin(least, evaluation.at(metric_));
    };
    TrainOptions training{.max_steps = steps_of_a_trial(),
                          .storage = draft_.options().storage,
                          .last_checkpoint = LastCheckpoint::kNone,
                          .cancel = options_.cancel};
    int64_t steps = 0;
    const auto report_steps = [&] {
      if (options_.on_step) options_.on_step(steps_ + steps, name);
    };
    training.callbacks.step = [&](const StepReport& report) {
      steps = report.step;
      report_steps();
    };
    training.callbacks.evaluating = [&](const PassProgress&) { report_steps(); };
    training.callbacks.evaluation = [&](const EvaluationReport& report) {
      take(report.evaluation);
    };
    const bool is_first = trials_.empty();
    try {
      Trainer trainer(context_, config, training);
      while (trainer.step()) {
      }
      const TrainSummary summary = trainer.close();
      if (summary.outcome == TrainOutcome::kInterrupted) throw_cancelled();
    } catch (const Error& error) {
      if (is_first || error.code() == ErrorCode::kCancelled) throw;  // the data are the reason
      least = std::numeric_limits<double>::quiet_NaN();
    }
    std::filesystem::remove_all(config.model_dir());
    steps_ += steps;
    return least;
  }

  int64_t steps_of_a_trial() const {
    return std::min(options_.steps / kShareOfATrial, options_.steps - steps_);
  }

  [[noreturn]] void throw_cancelled() const {
    throw Error(ErrorCode::kCancelled, cat("interrupted: the search ended in trial ",
                                           trials_.size() + 1, ", nothing is chosen"));
  }

  const Context& context_;
  const StarterDraft& draft_;
  const TuneOptions& options_;
  const std::string metric_;
  const std::vector<Move> moves_;
  const int parts_;  // ways to keep rows that each settings are compared by
  const TemporaryFolder folder_{"emblem_tune"};
  int trained_ = 0;  // models in it, one after the other
  PipelineSettings best_;
  std::vector<double> losses_;  // of the best, by part
  std::vector<TuneTrial> trials_;
  std::set<std::string> tried_;  // texts of pipelines
  int64_t steps_ = 0;
};

void check(const StarterDraft& draft, const TuneOptions& options) {
  EMBLEM_REQUIRE(
      options.steps >= TuneOptions::kFewestSteps && options.steps <= TuneOptions::kMostSteps,
      "a search of ", options.steps, " training steps; expected ", TuneOptions::kFewestSteps,
      " to ", TuneOptions::kMostSteps, " (100000 suits most data)");
  EMBLEM_REQUIRE(draft.rows() >= kFewestRows, "a search needs at least ", kFewestRows,
                 " rows, so that some can be kept to compare by; there are ",
                 static_cast<int64_t>(draft.rows()), "; omit --tune");
}

}  // namespace

std::string Tuned::summary() const {
  int64_t steps = 0;
  for (const TuneTrial& trial : trials) steps += trial.steps;
  const auto best = std::find_if(trials.rbegin(), trials.rend(),
                                 [](const TuneTrial& trial) { return trial.is_better; });
  std::string text =
      fmt::format("\nsearch: {} trials, {} steps; {} {:.5g} -> {:.5g} on rows kept from training\n",
                  trials.size(), format_count(static_cast<double>(steps)), metric,
                  trials.front().loss, best->loss);
  for (const TuneTrial& trial : trials)
    text += fmt::format(
        "  {:<36} {:>9}{}\n", trial.changed,
        std::isnan(trial.loss) ? "failed" : fmt::format("{:+.2f} %", 100 * trial.change),
        trial.is_better ? fmt::format("  kept: {:.5g}", trial.loss) : "");
  return text;
}

Tuned tune(const Context& context, const StarterDraft& draft, const TuneOptions& options) {
  check(draft, options);
  return Search(context, draft, options).run();
}

}  // namespace emblem
