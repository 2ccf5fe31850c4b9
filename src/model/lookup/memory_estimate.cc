#include "model/lookup/memory_estimate.h"

#include <algorithm>
#include <iterator>

#include "core/system/address_space.h"
#include "core/system/process.h"
#include "core/text/text.h"
#include "embedding/row_share.h"
#include "emblem/error.h"
#include "model/layers/inputs.h"
#include "model/lookup/table_config.h"
#include "model/lookup/table_placement.h"
#include "model/models.h"
#include "nn/graph.h"

namespace emblem {
namespace {

// A row, its place in the order of rows, and what finds equal ones.
constexpr int64_t kLookupBytesPerKey = 64;
constexpr int64_t kDenseFloats = 4;  // a weight, its gradient, up to two of the optimizer
constexpr int64_t kFloat = sizeof(float);

int64_t table_bytes(const config::PipelineConfig& config, const LookupGroup& group) {
  int64_t bytes = 0;
  for (const TableSettings& table : tables_of_lookup(config, group).tables)
    bytes += table_bytes_of(table);
  return bytes;
}

int64_t rows_of(const TableSettings& table) {
  return table.kind == TableKind::kStatic ? local_rows(table.capacity, table.held) : table.capacity;
}

// Host memory that is written when the table is made. Rather too little: without alignment and
// the numbers that tell which rows have changed.
double host_bytes_of(const Context& context, const TableSettings& table) {
  const bool counts = context.device == Device::kCpu ? table.kind == TableKind::kStatic
                                                     : table.placement != Placement::kDevice;
  if (!counts) return 0;
  return static_cast<double>(rows_of(table)) * static_cast<double>(row_bytes_of(table));
}

// Elements of a row of a sequence, where the pipeline does not limit them.
constexpr int64_t kElementsOfARow = 50;

int64_t elements_of_a_row(const SequenceSpec& sequence) {
  return sequence.max_length > 0 ? sequence.max_length : kElementsOfARow;
}

// Keys of a row of the batch, in all lookups.
int64_t keys_of_a_row(const ModelInputs& inputs, double keys_per_feature) {
  double keys = 0;
  for (const LookupGroup& group : inputs.lookups()) {
    for (const GroupedFeature& each : group.features) {
      const int64_t sequence = each.feature->sequence;
      keys += sequence < 0 ? keys_per_feature
                           : static_cast<double>(elements_of_a_row(
                                 inputs.layout().sequences[static_cast<size_t>(sequence)]));
    }
  }
  return static_cast<int64_t>(keys);
}

// "1.00 GiB are available", with the limit that leaves no more.
std::string available_text(double room) {
  const bool is_limited = room >= static_cast<double>(free_address_space_bytes());
  return cat(format_bytes(room), " are available", is_limited ? " (ulimit -v)" : "");
}

}  // namespace

TrainingBytes estimate_training_bytes(const config::PipelineConfig& config,
                                      const FeatureLayout& layout, double keys_per_feature) {
  Graph graph(config.train_config().seed());
  ModelInputs inputs(graph, config, layout, wide_dim_of(config.model_config()));
  build_model(graph, inputs);

  TrainingBytes found;
  for (const LookupGroup& group : inputs.lookups()) found.fixed += table_bytes(config, group);
  for (const Parameter& parameter : graph.parameter_list())
    found.fixed += parameter.rows * parameter.cols * kDenseFloats * kFloat;

  const int64_t keys = keys_of_a_row(inputs, keys_per_feature);
  int64_t numbers = layout.dense_cols, values = graph.values_per_row();
  for (size_t s = 0; s < layout.sequences.size(); ++s) {
    const SequenceSpec& sequence = layout.sequences[s];
    numbers += elements_of_a_row(sequence) * sequence.dense_cols + 1;  // and an offset
    const Space space = inputs.sequence_spaces()[s];
    if (space.id > 0) values += elements_of_a_row(sequence) * graph.values_per_element(space);
  }
  numbers += std::ssize(layout.labels) + std::ssize(layout.weight_fields) + 1;
  found.per_row += 2 * values * kFloat;  // and their gradients
  found.per_row += keys * kLookupBytesPerKey;
  found.batch_row = numbers * kFloat + keys * static_cast<int64_t>(sizeof(int64_t) + 4);
  return found;
}

int64_t host_bytes_of_tables(const Context& context, std::span<const TableSettings> tables) {
  double bytes = 0;
  for (const TableSettings& table : tables) bytes += host_bytes_of(context, table);
  return static_cast<int64_t>(std::min(bytes, 0x1p60));  // so that sums of ranks fit
}

int64_t room_for_tables(const Context& context) {
  const int64_t swap = context.device == Device::kCpu ? free_swap_bytes() : 0;
  return std::min(available_memory_bytes() + swap, free_address_space_bytes());
}

void require_table_memory(const Context& context, std::span<const TableSettings> tables,
                          int64_t room, int64_t others) {
  if (tables.empty()) return;
  const bool on_cpu = context.device == Device::kCpu;
  double wanted = 0;
  for (const TableSettings& table : tables) wanted += host_bytes_of(context, table);
  const auto left = static_cast<double>(room > 0 ? room : room_for_tables(context));
  if (wanted == 0 || wanted + static_cast<double>(others) <= left) return;
  const TableSettings& largest = *std::max_element(
      tables.begin(), tables.end(), [&](const TableSettings& a, const TableSettings& b) {
        return host_bytes_of(context, a) < host_bytes_of(context, b);
      });
  throw Error(
      ErrorCode::kOutOfMemory,
      cat("out of memory: the ", on_cpu ? "static tables" : "tables with a cache on the GPU",
          " need ", format_bytes(wanted), on_cpu ? "" : " of host memory",
          others > 0 ? cat(", those of other ranks on this host ",
                           format_bytes(static_cast<double>(others)))
                     : "",
          ", but only ", available_text(left), "; the largest is ", largest.name, ", ",
          rows_of(largest), " rows of ", row_bytes_of(largest), " bytes, ",
          format_bytes(host_bytes_of(context, largest)),
          ": give it fewer rows (num_buckets, hash_bucket_size, max_capacity, the row numbers of "
          "its vocab_file), ",
          on_cpu ? "make it dynamic (dynamicemb), " : "",
          "divide it among ranks of several hosts (emblem launch --hosts), or use a machine with "
          "more memory"));
}

void require_dense_memory(const Context& context, const Graph& graph, int64_t rows) {
  if (context.device != Device::kCpu) return;
  double weights = 0;
  const Parameter* largest = nullptr;
  const auto size = [](const Parameter& parameter) {
    return static_cast<double>(parameter.rows) * static_cast<double>(parameter.cols);
  };
  for (const Parameter& parameter : graph.parameter_list()) {
    weights += size(parameter);
    if (largest == nullptr || size(parameter) > size(*largest)) largest = &parameter;
  }
  const double room = static_cast<double>(available_memory_bytes());
  const double values = static_cast<double>(graph.values_per_row()) * static_cast<double>(rows);
  if (largest != nullptr && weights * kFloat > room)
    throw Error(ErrorCode::kOutOfMemory,
                cat("out of memory: the dense parameters need ", format_bytes(weights * kFloat),
                    ", but only ", available_text(room), "; the largest is ", largest->name, ", ",
                    largest->rows, " x ", largest->cols, ": use fewer units"));
  if (values * kFloat > room)
    throw Error(ErrorCode::kOutOfMemory,
                cat("out of memory: a batch of ", rows, " rows needs ",
                    format_bytes(values * kFloat), ", but only ", available_text(room),
                    "; lower data_config.batch_size, or use fewer units"));
}

}  // namespace emblem
