#include "api/pipeline.h"

#include "api/data.h"
#include "config/load/load.h"
#include "config/load/override.h"
#include "core/files/file.h"
#include "data/source/remote_storage.h"
#include "emblem/error.h"
#include "init/starter.h"

namespace emblem::api {

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
  const Storage storage = open_storage(config::DataConfig());
  const GivenRows rows(data, "train", storage);
  emblem::StarterOptions starting{.input = rows.input(),
                                  .storage = storage,
                                  .label_positive = options.label_positive,
                                  .task = options.task,
                                  .sampled_rows = options.sampled_rows};
  starting.columns = {options.label, options.weight, options.categories, options.numbers,
                      options.skipped};
  starting.pipeline.train_input = rows.input();
  starting.pipeline.model = options.model;
  starting.pipeline.holdout_ratio = options.holdout;
  const GivenRows valid(options.valid, "valid", storage);
  starting.pipeline.eval_input = valid.input();
  const emblem::Starter made = make_starter(starting);
  return {from_text(made.pipeline), made.summary, made.warnings};
}

void Pipeline::set(const std::string& field, const std::string& value) {
  const std::string assignment = cat(field, "=", value);
  try {
    apply_override(assignment, &state_->config);
  } catch (const Error& error) {  // without the name of the program's option
    const std::string what = error.what(), option = cat("--set ", assignment, ": ");
    throw Error(error.code(), what.starts_with(option) ? what.substr(option.size()) : what);
  }
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
