// What nodes have rows for: the batch, and sequences, whose number of elements differs from batch
// to batch.
#include <bit>
#include <limits>

#include "core/threads/thread_pool.h"
#include "nn/graph.h"
#include "nn/graph_state.h"
#include "nn/precision.h"

namespace emblem {

int64_t round_elements(int64_t elements) {
  if (elements < 32) return elements;
  const auto step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(elements)) / 16);
  return (elements + step - 1) / step * step;
}

Space Graph::add_sequence(std::string name) {
  GraphState& s = *state_;
  EMBLEM_REQUIRE(!s.prepared, "graph: sequence '", name,
                 "' was added after prepare(); build the whole graph first");
  for (const GraphState::Sequence& other : s.sequences)
    EMBLEM_REQUIRE(other.name != name, "graph: two sequences are named '", name, "'");
  s.sequences.emplace_back().name = std::move(name);
  return {static_cast<int>(s.sequences.size())};
}

Space Graph::space(Node node) const { return state_->tensor(node, "space")->space; }

std::vector<Space> Graph::sequences() const {
  const std::vector<Space> all = state_->spaces();
  return {all.begin() + 1, all.end()};
}

double Graph::batch_flops_per_row() const {
  double flops = flops_per_row();
  for (const Space sequence : sequences()) {
    const GraphState::Sequence& of = state_->sequences[sequence.id - 1];
    const int64_t elements = of.elements;
    if (elements <= 0 || state_->rows == 0 || of.fixed_count > 0) continue;
    const double length = static_cast<double>(elements) / static_cast<double>(state_->rows);
    flops += length * flops_per_element(sequence, length);
  }
  return flops;
}

std::vector<Space> GraphState::spaces() const {
  std::vector<Space> all;
  for (int id = 0; id <= static_cast<int>(sequences.size()); ++id) all.push_back({id});
  return all;
}

std::string GraphState::name_of_space(Space space) const {
  return space == Space{} ? "the batch" : cat("sequence '", sequences[space.id - 1].name, "'");
}

Space GraphState::space_of_inputs(const Op& op) const {
  const Tensor* first = op.inputs().front();
  for (const Tensor* input : op.inputs()) {
    EMBLEM_REQUIRE(input->space == first->space, op.kind(), ": '", first->name, "' belongs to ",
                   name_of_space(first->space), ", but '", input->name, "' to ",
                   name_of_space(input->space), "; repeat or pool one of them first");
  }
  EMBLEM_REQUIRE(op.output() != nullptr || first->space == Space{}, op.kind(), ": '", first->name,
                 "' belongs to ", name_of_space(first->space), ", but losses are of the batch");
  return first->space;
}

GraphState::Sequence& GraphState::sequence(Space space, const char* used_by) {
  EMBLEM_REQUIRE(space.id > 0 && space.id <= static_cast<int>(sequences.size()), "graph: ", used_by,
                 " was given space ", space.id, ", but the graph has ", sequences.size(),
                 " sequences, numbered from 1");
  return sequences[space.id - 1];
}

int64_t GraphState::capacity_of(Space space) const {
  return space == Space{} ? max_rows : sequences[space.id - 1].capacity;
}

int64_t GraphState::rows_of(Space space) const {
  return space == Space{} ? rows : sequences[space.id - 1].rows;
}

int64_t GraphState::real_rows_of(Space space) const {
  if (space == Space{}) return rows;
  const Sequence& sequence = sequences[space.id - 1];
  EMBLEM_REQUIRE(sequence.elements >= 0, "graph: the elements of sequence '", sequence.name,
                 "' are not known; call set_elements() after set_rows()");
  return sequence.elements;
}

void GraphState::check_elements() const {
  for (const Space space : spaces()) (void)real_rows_of(space);
}

// What is fed ends at the last element. Ops that read ids do not read beyond it.
void GraphState::clear_padding_of_inputs(const Context& context, Space space) {
  const int64_t elements = real_rows_of(space), padding = rows_of(space) - elements;
  if (padding == 0) return;
  for (NodeState& node : nodes) {
    const Tensor& tensor = *node.tensor;
    const bool is_padded = node.kind == Kind::kInput || node.kind == Kind::kTrainedInput;
    if (!is_padded || tensor.space != space) continue;
    if (node.has_wide_value) {
      detail::zero(context, node.wide_value.data() + elements * tensor.cols,
                   padding * tensor.cols * sizeof(float));
    } else {
      const int64_t row_bytes = tensor.stride * size_of(tensor.dtype);
      detail::zero(context, tensor.value<char>() + elements * row_bytes, padding * row_bytes);
    }
  }
}

static void find_rows(const Context& context, const int32_t* offsets, int64_t rows,
                      int32_t* row_of) {
  parallel_for(context, rows, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      std::fill(row_of + offsets[r], row_of + offsets[r + 1], static_cast<int32_t>(r));
  });
}

static void find_rows_of(const Context& context, GraphState::Sequence& of, int64_t rows) {
  dispatch(
      context.device, [&] { find_rows(context, of.offsets.data(), rows, of.row_of.data()); },
      [&] { cuda::find_rows(context, of.offsets.data(), rows, of.rows, of.row_of.data()); });
}

void GraphState::prepare_fixed_sequences(const Context& context) {
  for (Sequence& of : sequences) {
    if (of.fixed_count == 0) continue;
    const int64_t most = max_rows * of.fixed_count;
    EMBLEM_REQUIRE(most <= std::numeric_limits<int32_t>::max() / 2, "graph: sequence '", of.name,
                   "' would have ", most, " elements; expected at most 1073741823; use smaller ",
                   "batches");
    of.capacity = device == Device::kCpu ? most : round_elements(most);
    std::vector<int32_t> offsets;
    for (int64_t r = 0; r <= max_rows; ++r)
      offsets.push_back(static_cast<int32_t>(r * of.fixed_count));
    of.offsets = Buffer<int32_t>::from(context, offsets);
    context.synchronize();
  }
}

void GraphState::set_fixed_elements() {
  for (Sequence& of : sequences) {
    if (of.fixed_count == 0) continue;
    of.elements = rows * of.fixed_count;
    of.rows = device == Device::kCpu ? of.elements : round_elements(of.elements);
  }
}

void GraphState::find_fixed_rows(const Context& context) {
  for (Sequence& of : sequences)
    if (of.fixed_count > 0) find_rows_of(context, of, rows);
}

void Graph::set_elements(const Context& context, Space sequence, View<const int32_t> offsets,
                         int64_t elements) {
  GraphState& s = *state_;
  GraphState::Sequence& of = s.sequence(sequence, "set_elements()");
  EMBLEM_REQUIRE(s.prepared, "graph: set_elements() before prepare()");
  EMBLEM_REQUIRE(of.fixed_count == 0, "graph: set_elements() of sequence '", of.name,
                 "', whose rows have ", of.fixed_count, " elements each; omit the call");
  s.check_device(context);
  EMBLEM_REQUIRE(offsets.size() == s.rows + 1, "graph: ", offsets.size(), " offsets of sequence '",
                 of.name, "' for ", s.rows, " rows; expected ", s.rows + 1);
  EMBLEM_REQUIRE(elements >= 0 && elements <= std::numeric_limits<int32_t>::max() / 2,
                 "graph: sequence '", of.name, "' has ", elements,
                 " elements; expected 0 to 1073741823; use smaller batches");
  if (s.device == Device::kCpu) {
    EMBLEM_REQUIRE(offsets.data[0] == 0 && offsets.data[s.rows] == elements,
                   "graph: the offsets of sequence '", of.name, "' go from ", offsets.data[0],
                   " to ", offsets.data[s.rows], "; expected 0 to ", elements);
  }
  const int64_t rows = s.device == Device::kCpu ? elements : round_elements(elements);
  if (rows > of.capacity) s.grow(context, sequence, elements);
  of.elements = elements;
  of.rows = rows;
  s.ran_forward = false;
  detail::copy(context, of.offsets.data(), offsets.data, offsets.size() * sizeof(int32_t));
  find_rows_of(context, of, s.rows);
  s.clear_padding_of_inputs(context, sequence);
}

}  // namespace emblem
