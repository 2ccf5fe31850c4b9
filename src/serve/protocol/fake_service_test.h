// serve/protocol/fake_service_test.h - a service with one plain model, to test front ends with.
//
// Model "sum", versions 1 and 2. Inputs A FP32 [-1,4], B INT64 [-1,2] (optional), NAME BYTES [-1,1]
// (optional); outputs SUM FP32 [-1,1] = the row's A and B added up, ECHO BYTES [-1,1] = NAME (only
// when NAME was given). While `hold` is set, requests wait until release() or until they are
// cancelled. With `full` set they are refused with kUnavailable.
#pragma once

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "serve/protocol/inference_service.h"
#include "serve/protocol/model_config.pb.h"

namespace emblem {

class FakeService : public InferenceService {
 public:
  std::atomic<bool> ready = true, hold = false, full = false;
  std::atomic<int> loads = 0, unloads = 0;

  ItemsChanged change_items(const InferRequest& request, ItemChange change) override {
    EMBLEM_REQUIRE(!request.inputs.empty(), "input 'ids' is missing");
    std::lock_guard lock(mutex_);
    changes_.push_back(cat(change == ItemChange::kPut ? "put " : "remove ", request.model, "/",
                           request.version, " ", request.inputs[0].name));
    return {"2", std::ssize(changes_), 10};
  }
  std::vector<std::string> changes() const {
    std::lock_guard lock(mutex_);
    return changes_;
  }

  bool is_ready() const override { return ready; }
  bool is_model_ready(const std::string& model, const std::string& version) const override {
    check(model, version);
    return true;
  }
  ModelMetadata metadata(const std::string& model, const std::string& version) const override {
    check(model, version);
    return {"sum",
            {"1", "2"},
            "emblem",
            {{"A", DataType::kFp32, {-1, 4}},
             {"B", DataType::kInt64, {-1, 2}},
             {"NAME", DataType::kBytes, {-1, 1}}},
            {{"SUM", DataType::kFp32, {-1, 1}}, {"ECHO", DataType::kBytes, {-1, 1}}}};
  }
  inference::ModelConfig config(const std::string& model,
                                const std::string& version) const override {
    check(model, version);
    inference::ModelConfig config;
    config.set_name("sum");
    config.set_backend("emblem");
    config.set_max_batch_size(64);
    auto* a = config.add_input();
    a->set_name("A");
    a->set_data_type(inference::TYPE_FP32);
    a->add_dims(4);
    auto* sum = config.add_output();
    sum->set_name("SUM");
    sum->set_data_type(inference::TYPE_FP32);
    sum->add_dims(1);
    return config;
  }
  std::vector<ModelStatistics> statistics(const std::string& model,
                                          const std::string& version) const override {
    if (!model.empty()) check(model, version);
    std::lock_guard lock(mutex_);
    std::vector<ModelStatistics> both(2, statistics_);
    both[1].version = "2";
    if (!version.empty()) return {both[version == "2" ? 1 : 0]};
    return both;
  }
  std::vector<RepositoryEntry> index() const override {
    return {{"sum", "1", "READY", ""},
            {"sum", "2", "READY", ""},
            {"broken", "1", "UNAVAILABLE", "no table"}};
  }
  void load(const std::string& model, const std::map<std::string, std::string>&) override {
    if (model != "sum") throw Error(ErrorCode::kNotFound, "no model " + model);
    ++loads;
  }
  void unload(const std::string& model) override {
    if (model != "sum") throw Error(ErrorCode::kNotFound, "no model " + model);
    ++unloads;
  }

  void infer(std::unique_ptr<InferRequest> request, InferDone done) override {
    std::unique_lock lock(mutex_);
    if (full) {
      lock.unlock();
      return done(Error(ErrorCode::kUnavailable, "Exceeds maximum queue size"));
    }
    if (hold) {
      held_.emplace_back(std::move(request), std::move(done));
      return;
    }
    lock.unlock();
    answer(*request, done);
  }

  void release() {
    std::vector<std::pair<std::unique_ptr<InferRequest>, InferDone>> held;
    {
      std::lock_guard lock(mutex_);
      hold = false;
      held.swap(held_);
    }
    for (auto& [request, done] : held) {
      if (request->cancelled && *request->cancelled) {
        done(Error(ErrorCode::kCancelled, "the request was cancelled"));
      } else {
        answer(*request, done);
      }
    }
  }
  size_t held() const {
    std::lock_guard lock(mutex_);
    return held_.size();
  }
  // How many of these their clients have given up.
  size_t held_and_cancelled() const {
    std::lock_guard lock(mutex_);
    return std::count_if(held_.begin(), held_.end(), [](const auto& of) {
      return of.first->cancelled && *of.first->cancelled;
    });
  }
  // The request before the last answer.
  InferRequest last_request() const {
    std::lock_guard lock(mutex_);
    return last_;
  }

 private:
  static void check(const std::string& model, const std::string& version) {
    if (model != "sum" || (version != "" && version != "1" && version != "2"))
      throw Error(ErrorCode::kNotFound, cat("there is no model ", model, " of version ", version));
  }

  template <class T>
  static void add_up(const InputTensor& input, int64_t each, std::vector<float>& sums) {
    for (int64_t i = 0; i < static_cast<int64_t>(sums.size()) * each; ++i) {
      T value;
      std::memcpy(&value, input.data.data() + static_cast<size_t>(i) * sizeof(T), sizeof(T));
      sums[static_cast<size_t>(i / each)] += static_cast<float>(value);
    }
  }

  InferResponse compute(const InferRequest& request) const {
    check(request.model, request.version);
    InferResponse response{"sum", request.version.empty() ? "2" : request.version, request.id, {}};
    std::vector<float> sums;
    std::optional<OutputTensor> echo;
    for (const InputTensor& input : request.inputs) {
      check_bytes(input);
      EMBLEM_REQUIRE(input.shape.size() == 2, "input ", input.name, " needs two dimensions");
      sums.resize(static_cast<size_t>(input.shape[0]));
    }
    for (const InputTensor& input : request.inputs) {
      EMBLEM_REQUIRE(input.shape[0] == static_cast<int64_t>(sums.size()), "inputs differ in rows");
      if (input.name == "A" && input.type == DataType::kFp32 && input.shape[1] == 4) {
        add_up<float>(input, 4, sums);
      } else if (input.name == "B" && input.type == DataType::kInt64 && input.shape[1] == 2) {
        add_up<int64_t>(input, 2, sums);
      } else if (input.name == "NAME" && input.type == DataType::kBytes && input.shape[1] == 1) {
        echo = OutputTensor{
            "ECHO", DataType::kBytes, input.shape, {input.data.begin(), input.data.end()}};
      } else {
        throw Error(ErrorCode::kInvalidArgument,
                    cat("model sum has no input ", input.name, " ", name_of(input.type), " ",
                        shape_text(input.shape)));
      }
    }
    const auto* bytes = reinterpret_cast<const std::byte*>(sums.data());
    std::vector<OutputTensor> outputs;
    outputs.push_back({"SUM",
                       DataType::kFp32,
                       {static_cast<int64_t>(sums.size()), 1},
                       {bytes, bytes + sums.size() * sizeof(float)}});
    if (echo) outputs.push_back(*echo);
    if (request.outputs.empty()) {
      response.outputs = std::move(outputs);
      return response;
    }
    for (const RequestedOutput& wanted : request.outputs) {
      const auto found = std::find_if(outputs.begin(), outputs.end(),
                                      [&](const OutputTensor& o) { return o.name == wanted.name; });
      EMBLEM_REQUIRE(found != outputs.end(), "model sum has no output ", wanted.name);
      response.outputs.push_back(wanted.classes > 0 ? classify(*found, wanted.classes, true, {})
                                                    : *found);
    }
    return response;
  }

  void answer(const InferRequest& request, const InferDone& done) {
    std::optional<InferResult> result;
    try {
      result = compute(request);
    } catch (const Error& error) {
      result = error;
    }
    {
      std::lock_guard lock(mutex_);
      last_ = request;
      last_.memory = nullptr;
      for (InputTensor& input : last_.inputs) input.data = {};
      if (std::holds_alternative<Error>(*result)) {
        statistics_.fail.add(1000);
      } else {
        ++statistics_.inference_count;
        ++statistics_.execution_count;
        statistics_.success.add(4000);
        statistics_.queue.add(1000);
        statistics_.compute_input.add(1000);
        statistics_.compute_infer.add(1000);
        statistics_.compute_output.add(1000);
        statistics_.latency.add(4000);
        BatchStatistics& batch = statistics_.by_batch[1];
        batch.compute_input.add(1000);
        batch.compute_infer.add(1000);
        batch.compute_output.add(1000);
      }
    }
    done(std::move(*result));
  }

  mutable std::mutex mutex_;
  std::vector<std::string> changes_;  // of items
  ModelStatistics statistics_{.name = "sum", .version = "1"};
  std::vector<std::pair<std::unique_ptr<InferRequest>, InferDone>> held_;
  InferRequest last_;
};

}  // namespace emblem
