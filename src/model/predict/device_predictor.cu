#include "model/predict/device_predictor.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "core/device/cuda_check.h"
#include "emblem/error.h"

namespace emblem::cuda {
namespace {

// The input of a batch: its number of rows, dense values, and the keys of each lookup.
constexpr size_t kDenseBegin = 64;
constexpr int64_t kSmallestBucket = 16;
constexpr int64_t kPowersUpTo = 128;    // above there are buckets between powers of two as well
constexpr int64_t kWatchedRows = 8192;  // rows of batches whose end is watched for

size_t align(size_t bytes) { return (bytes + 63) / 64 * 64; }

int64_t most_keys_of_a_row(const FeatureKeys& keys) {
  int64_t most = keys.offsets.size() == 0 ? 1 : 0;
  for (int64_t row = 0; row + 1 < keys.offsets.size(); ++row)
    most = std::max<int64_t>(most, keys.offsets.data[row + 1] - keys.offsets.data[row]);
  return most;
}

// One for each row, kNoKey where it has none.
void write_keys(const FeatureKeys& keys, int64_t rows, int64_t* to) {
  if (keys.offsets.size() == 0) {
    std::copy_n(keys.keys.data, rows, to);
    return;
  }
  const int32_t* offsets = keys.offsets.data;
  for (int64_t row = 0; row < rows; ++row)
    to[row] = offsets[row] < offsets[row + 1] ? keys.keys.data[offsets[row]] : kNoKey;
}

}  // namespace

DevicePredictor::DevicePredictor(const Context& context, std::unique_ptr<Model> model,
                                 std::vector<PredictorLookup> lookups, int64_t max_rows)
    : context_(context),
      model_(std::move(model)),
      lookups_(std::move(lookups)),
      inputs_(model_->lookup_inputs()),
      piece_(model_->sequence_of_feature()),
      max_rows_(max_rows) {
  EMBLEM_REQUIRE(lookups_.size() == inputs_.size(), "the model has ", inputs_.size(),
                 " lookups, but rows for ", lookups_.size(), " were given");
  const std::string unsupported = unsupported_part(*model_);
  EMBLEM_REQUIRE(unsupported.empty(), "the model has ", unsupported,
                 ", which this way of computing on a GPU does not support");
  if (model_->dense_node().id >= 0) dense_cols_ = model_->graph().cols(model_->dense_node());
  lay_out(max_rows_);
  host_input_ = std::make_unique<PinnedMemory>(input_bytes_);
  host_output_ = std::make_unique<PinnedMemory>(static_cast<size_t>(max_rows_) * sizeof(float));
  done_ = std::make_unique<PinnedMemory>(64);
  std::memset(host_input_->data(), 0, input_bytes_);
  input_ = Buffer<char>::zeros(context, static_cast<int64_t>(input_bytes_));
  InferenceInputs inputs;
  inputs.dense = model_->dense_node();
  inputs.dense_values = reinterpret_cast<const float*>(input_.data() + kDenseBegin);
  for (size_t l = 0; l < lookups_.size(); ++l) {
    const CachedRows& rows = *lookups_[l].rows;
    EMBLEM_REQUIRE(rows.features() == static_cast<int64_t>(inputs_[l].sparse_index.size()),
                   "lookup ", l, " has ", inputs_[l].sparse_index.size(),
                   " features, but rows for ", rows.features(), " were given");
    inputs.embeddings.push_back({inputs_[l].node, rows.addresses(), rows.dim(0)});
  }
  inference_ = std::make_unique<Inference>(context_, model_->graph(), model_->logits_node(),
                                           std::move(inputs));
}

DevicePredictor::~DevicePredictor() { cudaStreamSynchronize(context_.stream); }

int64_t DevicePredictor::bucket_of(int64_t rows) const {
  int64_t bucket = std::max<int64_t>(
      kSmallestBucket, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows))));
  if (bucket > kPowersUpTo && rows <= bucket / 4 * 3) bucket = bucket / 4 * 3;
  return std::min(bucket, max_rows_);
}

void DevicePredictor::lay_out(int64_t rows) {
  size_t at = align(kDenseBegin + static_cast<size_t>(rows * dense_cols_) * sizeof(float));
  key_begins_.clear();
  for (const Model::LookupInput& input : inputs_) {
    key_begins_.push_back(at);
    at = align(at + input.sparse_index.size() * static_cast<size_t>(rows) * sizeof(int64_t));
  }
  input_bytes_ = at;
}

void DevicePredictor::check(const ModelBatch& batch) const {
  EMBLEM_REQUIRE(batch.dense.cols == dense_cols_ || dense_cols_ == 0, "a batch of ",
                 batch.dense.cols, " dense columns for a model of ", dense_cols_);
  for (const Model::LookupInput& input : inputs_) {
    for (const int64_t feature : input.sparse_index) {
      const FeatureKeys& keys = batch.sparse[static_cast<size_t>(feature)];
      EMBLEM_REQUIRE(keys.offsets.size() == 0 ? keys.keys.size() == batch.rows
                                              : keys.offsets.size() == batch.rows + 1,
                     "feature ", feature, " has ", keys.keys.size(), " keys and ",
                     keys.offsets.size(), " offsets, which do not fit ", batch.rows, " rows");
      EMBLEM_REQUIRE(
          keys.weights.size() == 0 && most_keys_of_a_row(keys) <= 1, "feature ", feature,
          keys.weights.size() != 0 ? " has keys with weights" : " has rows with several keys",
          ", which a GPU does not serve; serve the model with --device cpu");
    }
  }
}

void DevicePredictor::copy_in(const ModelBatch& batch) {
  EMBLEM_REQUIRE(batch.rows > 0 && batch.rows <= max_rows_, "a batch of ", batch.rows,
                 " rows, but there is room for ", max_rows_);
  check(batch);
  enqueue_copy(batch);
}

void DevicePredictor::enqueue_copy(const ModelBatch& batch) {
  if (copying_) wait();  // or the batch before would be overwritten on its way
  copying_ = true;
  rows_ = batch.rows;
  bucket_ = bucket_of(rows_);
  lay_out(bucket_);
  char* to = host_input_->data();
  const auto rows = static_cast<uint32_t>(rows_);
  std::memcpy(to, &rows, sizeof(rows));
  if (dense_cols_ > 0)
    std::memcpy(to + kDenseBegin, batch.dense.data,
                static_cast<size_t>(rows_ * dense_cols_) * sizeof(float));
  for (size_t l = 0; l < inputs_.size(); ++l) {
    auto* keys = reinterpret_cast<int64_t*>(to + key_begins_[l]);
    for (const int64_t feature : inputs_[l].sparse_index) {
      write_keys(batch.sparse[static_cast<size_t>(feature)], rows_, keys);
      keys += bucket_;
    }
  }
  copy_async(context_, input_.data(), to, input_bytes_);
}

void DevicePredictor::find(int64_t rows) {
  for (size_t l = 0; l < lookups_.size(); ++l) {
    lookups_[l].rows->find(context_,
                           {reinterpret_cast<const uint32_t*>(input_.data()),
                            reinterpret_cast<const int64_t*>(input_.data() + key_begins_[l])},
                           rows);
  }
}

// Few rows go through a chain of kernels that overlap. With more rows, the layers before the lookup
// run in parallel to it.
void DevicePredictor::enqueue(int64_t rows) {
  if (rows <= CachedRows::kRowsOfOneKernel || lookups_.empty()) {
    find(rows);
    inference_->enqueue_before_lookup(context_, rows);
    return enqueue_rest(rows, Inference::Order::kChained);
  }
  Context side = context_;
  side.stream = side_.get();
  fork_.record(context_.stream);
  fork_.make_wait(side.stream);
  inference_->enqueue_before_lookup(side, rows);
  join_.record(side.stream);
  find(rows);
  join_.make_wait(context_.stream);
  enqueue_rest(rows, Inference::Order::kParallel);
}

void DevicePredictor::enqueue_rest(int64_t rows, Inference::Order order) {
  inference_->enqueue_after_lookup(
      context_, rows, order,
      {.probabilities = reinterpret_cast<float*>(host_output_->data()),
       .done = rows <= kWatchedRows ? reinterpret_cast<uint32_t*>(done_->data()) : nullptr});
}

// The first run plans matrix products, which cannot be captured.
DevicePredictor::Bucket& DevicePredictor::ready(int64_t rows) {
  Bucket& bucket = buckets_[rows];
  if (bucket.all != nullptr) return bucket;
  enqueue(rows);
  context_.synchronize();
  auto all = std::make_unique<CudaGraph>(context_, [&] { enqueue(rows); });
  bucket.again = std::make_unique<CudaGraph>(
      context_, [&] { enqueue_rest(rows, Inference::Order::kParallel); });
  bucket.all = std::move(all);
  return bucket;
}

void DevicePredictor::warm_up() {
  for (int64_t rows = bucket_of(1);; rows = bucket_of(rows + 1)) {
    lay_out(rows);
    ready(rows);
    if (rows == max_rows_) return;
  }
}

void DevicePredictor::compute() {
  struct ReadScopes {  // rows that were found stay where they are until their end
    DevicePredictor& of;
    size_t begun = 0;
    ~ReadScopes() {
      if (!of.finished_) cudaStreamSynchronize(of.context_.stream);  // after an error
      for (size_t l = 0; l < begun; ++l) of.lookups_[l].rows->cache().end_read(of.lookups_[l].pass);
    }
  } epochs{*this};
  finished_ = false;
  for (PredictorLookup& lookup : lookups_) {
    lookup.pass = lookup.rows->cache().begin_read();
    ++epochs.begun;
  }
  const Bucket& bucket = ready(bucket_);
  for (const PredictorLookup& lookup : lookups_) lookup.rows->clear_report();
  launch(*bucket.all);
  copying_ = false;
  if (bring_missing()) launch(*bucket.again);
  finished_ = true;
}

// Waits for the probabilities. What a stream has done is known some microseconds after it is done;
// errors are known by the stream alone.
void DevicePredictor::launch(const CudaGraph& graph) {
  volatile uint32_t& done = *reinterpret_cast<uint32_t*>(done_->data());
  done = 0;
  graph.launch(context_);
  if (bucket_ <= kWatchedRows) {
    do {
      for (int looks = 0; looks < 20000; ++looks) {
        if (done == 0) continue;
        std::atomic_thread_fence(std::memory_order_acquire);
        return;
      }
    } while (cudaStreamQuery(context_.stream) == cudaErrorNotReady);
  }
  context_.synchronize();
}

bool DevicePredictor::bring_missing() {
  bool changed = false;
  for (const PredictorLookup& lookup : lookups_) {
    const MissReport report = lookup.rows->report();
    counts_.lookups += rows_ * lookup.rows->features();
    counts_.missed += report.lookups;
    counts_.distinct += report.distinct;
    counts_.absent += report.absent;
    if (lookup.missing != nullptr) lookup.missing->count_lookups(*lookup.rows, rows_);
    if (report.distinct > 0 && lookup.missing != nullptr)
      changed |= lookup.missing->fetch(context_, *lookup.rows);
  }
  return changed;
}

std::span<const float> DevicePredictor::probabilities() const {
  return {reinterpret_cast<const float*>(host_output_->data()), static_cast<size_t>(rows_)};
}

std::string DevicePredictor::unsupported_part(const Model& model) {
  if (model.heads().size() > 1) return "several heads";
  const HeadSpec& head = model.heads()[0].spec;
  if (head.kind != HeadKind::kBinary || head.classes != 1 || head.domains != 1)
    return "a head that is not binary";
  for (const Model::LookupInput& input : model.lookup_inputs()) {
    if (input.is_stacked || input.sequence >= 0) return "sequences";
    for (const int64_t dim : input.dims)
      if (dim != input.dims[0]) return "embeddings of several dimensions in a lookup";
  }
  return "";
}

void DevicePredictor::run(const Context&, const ModelBatch& batch,
                          std::span<const PredictedOutput> outputs) {
  for (const PredictedOutput& output : outputs)
    EMBLEM_REQUIRE(output.spec.value == OutputSpec::Value::kProbability, "output ",
                   output.spec.name,
                   " is not computed for this model on a GPU; serve the model "
                   "with --device cpu");
  check(batch);
  for (int64_t begin = 0; begin < batch.rows; begin += max_rows_) {
    const int64_t rows = std::min(max_rows_, batch.rows - begin);
    enqueue_copy(batch.rows > max_rows_ ? piece_.cut(batch, begin, rows) : batch);
    compute();
    for (const PredictedOutput& output : outputs)
      std::copy_n(probabilities().begin(), rows, output.values.row(begin));
  }
}

}  // namespace emblem::cuda
