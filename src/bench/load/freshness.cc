#include "bench/load/freshness.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>

#include "bench/load/target.h"
#include "bench/result/result_table.h"
#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "core/math/random.h"
#include "core/system/caught_error.h"
#include "core/system/interrupt.h"
#include "core/system/process.h"
#include "core/system/subprocess.h"
#include "core/threads/start_threads.h"
#include "embedding/files/delta_files.h"
#include "emblem/error.h"
#include "kafka/producer.h"
#include "serve/repository/export.h"
#include "serve/serving.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::system_clock;

constexpr int kIds = 8;  // features besides the user
constexpr int64_t kUsers = 100000, kIdValues = 20000;
constexpr int64_t kFirstProbe = int64_t{1} << 40;  // users of probes
constexpr int64_t kFirstEvents = 4096;             // trained on before the model is exported
constexpr int64_t kRequestRows = 64;
constexpr auto kAskInterval = std::chrono::milliseconds(5);
constexpr const char* kStages[] = {"queue", "train", "delta", "load"};

double unix_seconds() {
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

// The value at a share of the sorted values.
double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const auto last = static_cast<double>(values.size() - 1);
  return values[static_cast<size_t>(std::ceil(share * last))];
}

std::string pipeline_text(const FreshnessOptions& options, const std::string& model_dir) {
  std::string text = fmt::format(
      R"(model_dir: "{}"
train_config {{
  sparse_optimizer {{ adagrad_optimizer {{ lr: 0.1 }} }}
  dense_optimizer {{ adam_optimizer {{ lr: 0.001 }} }}
  save_checkpoints_steps: 0 progressive_eval_rows: 0 use_tensorboard: false
  delta_steps: {} keep_delta_max: 0
}}
data_config {{
  dataset_type: KafkaDataset stream_format: JSON_ROWS label_fields: "label" fg_mode: FG_NORMAL
  batch_size: {} num_workers: 1
  input_fields {{ input_name: "user" input_type: INT64 }}
}}
feature_configs {{
  id_feature {{
    feature_name: "user" expression: "user:user" embedding_dim: 16
    dynamicemb {{ max_capacity: 1000000 }}
  }}
}}
)",
      model_dir, options.delta_steps, options.batch_size);
  std::string names = "\"user\"";
  for (int i = 1; i <= kIds; ++i) {
    text += fmt::format(
        R"(feature_configs {{
  id_feature {{ feature_name: "c{0}" expression: "item:c{0}" num_buckets: {1} embedding_dim: 16 }}
}}
)",
        i, kIdValues);
    names += fmt::format(", \"c{}\"", i);
  }
  return text + fmt::format(R"(model_config {{
  feature_groups {{ group_name: "deep" feature_names: [{}] group_type: DEEP }}
  dnn {{ deep {{ hidden_units: [64, 32] }} }}
}}
)",
                            names);
}

std::string event_text(int64_t user, Random& random) {
  std::string text = fmt::format(R"({{"label": {}, "user": {})", random.below(2), user);
  // Id 0 is of requests alone.
  for (int i = 1; i <= kIds; ++i)
    text += fmt::format(", \"c{}\": {}", i, 1 + random.below(kIdValues - 1));
  return text + "}";
}

// Rows of these users; all other ids are 0, which no event has.
LoadRequest request_for(const ModelMetadata& metadata, const std::vector<int64_t>& users) {
  LoadRequest request;
  for (const TensorMetadata& input : metadata.inputs) {
    const auto rows = static_cast<int64_t>(users.size());
    LoadInput values{input.name, input.type, {rows, 1}, {}};
    EMBLEM_REQUIRE(values.type == DataType::kInt64, "input ", input.name,
                   " of the model is not of type INT64");
    std::vector<int64_t> ids = users;
    if (input.name != "user") std::fill(ids.begin(), ids.end(), 0);
    values.data.resize(ids.size() * sizeof(int64_t));
    std::memcpy(values.data.data(), ids.data(), values.data.size());
    request.inputs.push_back(std::move(values));
  }
  return request;
}

struct Probe {
  int64_t offset = 0;
  double sent = 0, answered = 0;  // unix seconds
};

class FreshnessBench {
 public:
  FreshnessBench(const FreshnessOptions& options,
                 const std::function<void(const std::string&)>& progress)
      : options_(options),
        progress_(progress),
        producer_(options.brokers.empty() ? KafkaProducer::with_mock_brokers(1)
                                          : KafkaProducer(options.brokers)) {
    if (options.brokers.empty()) producer_.create_topic(options.topic, 1);
    write_text_file_atomically(path("pipeline.config"), pipeline_text(options, path("model")));
  }
  ~FreshnessBench() { stop(); }

  BenchResult run();

 private:
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  std::string address(const std::string& query) const {
    return cat("kafka://", producer_.brokers(), "/", options_.topic,
               "?fetch.wait.max.ms=10&max_wait_ms=", options_.max_wait_ms, "&", query);
  }
  Subprocess training(const std::string& query, const std::string& log) const {
    return {.arguments = {program_path(), "train", "--config", path("pipeline.config"), "--resume",
                          "--threads", std::to_string(options_.threads), "--train-input",
                          address(query)},
            .log = path(log)};
  }
  std::string last_line(const std::string& log) const {
    std::string text = read_text_file(path(log));
    while (text.ends_with('\n')) text.pop_back();
    return text.substr(text.rfind('\n') + 1);
  }

  int64_t send(int64_t user);
  void start_server();
  void start_threads_of_load();
  std::unique_ptr<LoadConnection> connect(const std::vector<LoadRequest>& requests) {
    const std::lock_guard lock(results_mutex_);
    return target_->connect(requests, {});
  }
  void send_events();
  void send_requests();
  void follow_probes(int first);
  Probe follow(LoadConnection& connection, size_t request, int64_t user);
  void stop();
  BenchResult result() const;

  const FreshnessOptions options_;
  const std::function<void(const std::string&)> progress_;
  const TemporaryFolder folder_{"emblem_freshness"};
  std::mutex producer_mutex_;
  KafkaProducer producer_;
  Random random_{7, 1};
  int64_t sent_ = 0;
  std::unique_ptr<Serving> serving_;
  std::unique_ptr<LoadTarget> target_;
  ModelMetadata metadata_;
  std::optional<RunningSubprocess> trainer_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> load_, probers_;
  std::mutex results_mutex_;
  std::vector<Probe> probes_;
  std::exception_ptr error_;
};

// Returns the offset of the event, which is alone in its message.
int64_t FreshnessBench::send(int64_t user) {
  const std::lock_guard lock(producer_mutex_);
  producer_.send_to(options_.topic, 0, event_text(user, random_));
  return sent_++;
}

void FreshnessBench::start_server() {
  export_model(path("model"), path("models/fresh"));
  ServingOptions options;
  options.models.repository = path("models");
  options.models.deltas["fresh"] = path("model/deltas");
  for (auto* server : {&options.http, &options.metrics}) server->address = "127.0.0.1";
  options.http.port = options.metrics.port = 0;
  options.grpc.address = "127.0.0.1";
  options.grpc.port = 0;
  serving_ = std::make_unique<Serving>(options);
  target_ = open_target({.url = cat("127.0.0.1:", serving_->http_port()), .model = "fresh"});
  metadata_ = target_->metadata();
}

void FreshnessBench::send_events() {
  auto next = Clock::now();
  while (!stop_) {
    const auto users = static_cast<uint64_t>(kUsers);
    const auto count = static_cast<int64_t>(options_.events_per_second / 100);
    for (int64_t i = 0; i < count; ++i)
      send(static_cast<int64_t>(random_bits(3, 5, static_cast<uint64_t>(sent_)) % users));
    next += std::chrono::milliseconds(10);
    std::this_thread::sleep_until(next);
  }
}

void FreshnessBench::send_requests() {
  std::vector<LoadRequest> requests;
  Random random{11, 2};
  for (int i = 0; i < 16; ++i) {
    std::vector<int64_t> users(kRequestRows);
    for (int64_t& user : users) user = static_cast<int64_t>(random.below(kUsers));
    requests.push_back(request_for(metadata_, users));
  }
  const auto connection = connect(requests);
  const std::chrono::duration<double> pause(1 / options_.requests_per_second);
  auto next = Clock::now();
  for (size_t i = 0; !stop_; ++i) {
    connection->send(i % requests.size());
    next += std::chrono::duration_cast<Clock::duration>(pause);
    std::this_thread::sleep_until(next);
  }
}

void FreshnessBench::start_threads_of_load() {
  const auto start = [&](std::vector<std::thread>& threads, const std::function<void()>& body) {
    start_threads(
        threads, 1, "a thread of load", "close other programs",
        [this, body] {
          try {
            body();
          } catch (...) {
            const std::lock_guard lock(results_mutex_);
            if (error_ == nullptr) error_ = std::current_exception();
            stop_ = true;
          }
        },
        [this] { stop_ = true; });
  };
  if (options_.events_per_second > 0) start(load_, [this] { send_events(); });
  if (options_.requests_per_second > 0) start(load_, [this] { send_requests(); });
  for (int i = 0; i < options_.in_flight; ++i) start(probers_, [this, i] { follow_probes(i); });
}

// The user is new, and nothing else in the request is trained on: the answer changes when the
// server has the user's row.
Probe FreshnessBench::follow(LoadConnection& connection, size_t request, int64_t user) {
  const auto ask = [&] {
    const auto problem = connection.send(request);
    if (problem) throw Error(ErrorCode::kUnavailable, cat("the server answered: ", *problem));
    return connection.answer().outputs.at(0).data;
  };
  const auto before = ask();
  Probe probe;
  probe.sent = unix_seconds();
  probe.offset = send(user);
  while (ask() == before) {
    if (stop_ || interrupted()) throw Error(ErrorCode::kCancelled, "interrupted");
    if (unix_seconds() - probe.sent > options_.timeout_seconds)
      throw Error(ErrorCode::kUnavailable,
                  cat("an event did not change its prediction within ", options_.timeout_seconds,
                      " s; training says: ", last_line("train.log")));
    std::this_thread::sleep_for(kAskInterval);
  }
  probe.answered = unix_seconds();
  return probe;
}

void FreshnessBench::follow_probes(int first) {
  std::vector<int64_t> users;
  for (int64_t i = first; i < options_.probes + options_.in_flight; i += options_.in_flight)
    users.push_back(kFirstProbe + i);
  std::vector<LoadRequest> requests;
  for (const int64_t user : users) requests.push_back(request_for(metadata_, {user}));
  const auto connection = connect(requests);
  for (size_t i = 0; i < users.size(); ++i) {
    const Probe probe = follow(*connection, i, users[i]);
    const std::lock_guard lock(results_mutex_);
    if (i > 0) probes_.push_back(probe);  // the first waits for training to start
    progress_(cat(probes_.size(), " of ", options_.probes, " events"));
  }
}

void FreshnessBench::stop() {
  stop_ = true;
  for (std::thread& thread : load_) thread.join();
  for (std::thread& thread : probers_) thread.join();
  load_.clear();
  probers_.clear();
}

BenchResult FreshnessBench::run() {
  progress_("training a first model");
  for (int64_t i = 0; i < kFirstEvents; ++i) send(i % kUsers);
  producer_.flush(std::chrono::seconds(60));
  const SubprocessResult first = run_subprocess(training("until=now", "first.log"));
  if (!first.succeeded())
    throw Error(ErrorCode::kUnavailable,
                cat("training failed (", to_text(first), "): ", last_line("first.log")));
  start_server();
  trainer_.emplace(training("", "train.log"));
  start_threads_of_load();
  for (std::thread& thread : probers_) thread.join();
  probers_.clear();
  stop();
  trainer_->stop(30);
  if (error_ != nullptr) std::rethrow_exception(error_);
  return result();
}

BenchResult FreshnessBench::result() const {
  std::vector<DeltaManifest> deltas;
  std::vector<double> visible;
  for (const DeltaFolder& folder : list_deltas(path("model/deltas"))) {
    deltas.push_back(read_delta_manifest(folder));
    struct stat facts {};
    ::stat(folder.path.c_str(), &facts);  // changed by the renaming
    visible.push_back(static_cast<double>(facts.st_ctim.tv_sec) +
                      static_cast<double>(facts.st_ctim.tv_nsec) * 1e-9);
  }
  std::vector<double> total;
  std::vector<double> stages[std::size(kStages)];
  for (const Probe& probe : probes_) {
    const auto found = std::find_if(deltas.begin(), deltas.end(), [&](const DeltaManifest& delta) {
      return !delta.origin.stream_offsets.empty() && delta.origin.stream_offsets[0] > probe.offset;
    });
    if (found == deltas.end()) continue;
    const double times[] = {probe.sent, static_cast<double>(found->origin.step_begin_unix_ms) / 1e3,
                            static_cast<double>(found->origin.step_end_unix_ms) / 1e3,
                            visible[static_cast<size_t>(found - deltas.begin())], probe.answered};
    total.push_back(probe.answered - probe.sent);
    for (size_t i = 0; i < std::size(kStages); ++i)
      stages[i].push_back(std::max(0.0, times[i + 1] - times[i]));
  }
  EMBLEM_REQUIRE(!total.empty(), "no event was followed to a delta");

  BenchResult result = begin_result("freshness", cat("events-", options_.events_per_second,
                                                     "-wait-", options_.max_wait_ms, "ms"));
  result.settings = {{"events_per_second", options_.events_per_second},
                     {"requests_per_second", options_.requests_per_second},
                     {"probes", static_cast<int64_t>(total.size())},
                     {"batch", options_.batch_size},
                     {"max_wait_ms", options_.max_wait_ms},
                     {"delta_steps", options_.delta_steps},
                     {"brokers", options_.brokers.empty() ? "mock" : options_.brokers}};
  const auto add = [&](const std::string& prefix, const std::vector<double>& values) {
    for (const auto& [name, share] : {std::pair("p50", 0.5), {"p95", 0.95}, {"p99", 0.99}})
      result.metrics.push_back({prefix + name, {quantile(values, share), "s", Better::kLower}});
  };
  add("", total);
  for (size_t i = 0; i < std::size(kStages); ++i) {
    add(cat(kStages[i], "_"), stages[i]);
    double sum = 0;
    for (const double seconds : stages[i]) sum += seconds;
    result.stages.push_back({kStages[i], sum / static_cast<double>(stages[i].size())});
  }
  return result;
}

}  // namespace

BenchResult bench_freshness(const FreshnessOptions& options,
                            const std::function<void(const std::string&)>& progress) {
  return FreshnessBench(options, progress).run();
}

std::string freshness_report(const BenchResult& result) {
  std::vector<std::vector<std::string>> rows = {{"stage", "p50", "p95", "p99"}};
  const auto add = [&](const std::string& title, const std::string& prefix) {
    std::vector<std::string> row = {title};
    for (const char* name : {"p50", "p95", "p99"})
      row.push_back(format_metric(find_named(result.metrics, prefix + name)->value, "s"));
    rows.push_back(std::move(row));
  };
  for (const char* stage : kStages) add(stage, cat(stage, "_"));
  add("event to answer", "");
  return align_columns(rows);
}

}  // namespace emblem
