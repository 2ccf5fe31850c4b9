#include "tune/moves.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "init/column_choice.h"

namespace emblem {
namespace {

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

}  // namespace

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

}  // namespace emblem
