#include "api/pipeline.h"

#include "api/compute.h"
#include "api/data.h"
#include "api/fields.h"
#include "config/load/load.h"
#include "core/files/file.h"
#include "data/source/remote_storage.h"
#include "emblem/error.h"
#include "init/starter.h"
#include "tune/tune.h"

namespace emblem::api {
namespace {

emblem::Starter starter_of(const emblem::StarterOptions& starting, const Tuning& tuning) {
  const StarterDraft draft(starting);
  if (tuning.steps == 0) return draft.finish(draft.settings());
  const Workers workers = open_workers(tuning.device, tuning.threads);
  const Tuned tuned = tune(workers.context, draft,
                           {.steps = tuning.steps,
                            .seed = tuning.seed,
                            .cancel = CancelToken(tuning.is_cancelled),
                            .on_step = tuning.on_step});
  emblem::Starter made = draft.finish(tuned.settings);
  made.summary += tuned.summary();
  return made;
}

}  // namespace

Pipeline::Pipeline(std::unique_ptr<State> state) : state_(std::move(state)) {}
Pipeline::Pipeline(const Pipeline& other) : state_(std::make_unique<State>(*other.state_)) {}
Pipeline::~Pipeline() = default;

Pipeline& Pipeline::operator=(const Pipeline& other) {
  *state_ = *other.state_;
  return *this;
}

Pipeline Pipeline::from_text(const std::string& text, const std::string& name) {
  return State::make(text, parse_pipeline(text, name));
}

Pipeline Pipeline::from_file(const std::string& path) {
  return State::make(read_text_file(path), load_pipeline(path));
}

Starter Pipeline::for_data(const Data& data, const StarterOptions& options) {
  EMBLEM_REQUIRE(!data.is_empty(), "no data is given; expected rows or files");
  EMBLEM_REQUIRE(options.sampled_rows >= 0, "the number of rows to read is ", options.sampled_rows,
                 "; expected at least 1, or 0 for all");
  const Storage storage = open_storage(config::DataConfig());
  const FirstRows first = first_rows(data, options.sampled_rows);
  const GivenRows rows(first.data, "train", storage);
  emblem::StarterOptions starting{.input = rows.input(),
                                  .storage = storage,
                                  .label_positive = options.label_positive,
                                  .task = options.task,
                                  .sampled_rows = options.sampled_rows,
                                  .is_beginning = first.has_more};
  starting.columns = {options.label, options.weight, options.categories, options.numbers,
                      options.skipped};
  starting.pipeline.train_input = rows.input();
  starting.pipeline.model = options.model;
  starting.pipeline.holdout_ratio = options.holdout;
  const GivenRows valid(first_rows(options.valid, options.sampled_rows).data, "valid", storage);
  starting.pipeline.eval_input = valid.input();
  const emblem::Starter made = starter_of(starting, options.tune);
  return {from_text(made.pipeline), made.summary, made.warnings};
}

void Pipeline::set(const std::string& field, const std::string& value) {
  set_field(field, value, &state_->config);
  expand_runs(&state_->config);
  state_->text.clear();
}

std::string Pipeline::text() const {
  return state_->text.empty() ? to_text(state_->config) : state_->text;
}

std::vector<std::string> Pipeline::labels() const {
  const auto& labels = state_->config.data_config().label_fields();
  return {labels.begin(), labels.end()};
}

}  // namespace emblem::api
