// nn/ops/op.h - what a layer is to the graph that runs it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/device/context.h"
#include "core/device/phase.h"
#include "core/math/half.h"
#include "kernels/gemm.h"
#include "kernels/input_ranges.h"
#include "nn/graph.h"

namespace emblem {

class OnnxLayers;  // nn/onnx/layers.h
namespace cuda {
class MatmulLibrary;  // kernels/matmul_cuda.h
}

// One node: a [rows, cols] matrix and, where the loss depends on it through something trained, the
// gradient of the loss with respect to it. Both are of type `dtype`, which is fp32 on a CPU.
struct Tensor {
  std::string name;
  Space space;  // what it has rows for
  int64_t cols = 0;
  // Elements from one row to the next: more than cols where ops that agree on it read and write
  // rows padded with zeros for alignment.
  int64_t stride = 0;
  bool needs_gradient = false;
  bool keeps_gradient = false;  // there is memory for it
  int64_t gradient_cols = 0;    // before this one, columns of the gradient are read
  DType dtype = DType::kF32;
  void* value_data = nullptr;
  void* gradient_data = nullptr;

  template <class T = float>
  T* value() const {
    return static_cast<T*>(value_data);
  }
  template <class T = float>
  T* gradient() const {
    return static_cast<T*>(gradient_data);
  }
};

// What an op does to the gradient of one of its inputs. Of the ops that a node feeds, the first to
// run backward overwrites its gradient and the others add, so that nothing is ever filled with
// zeros.
enum class Write { kNone, kOverwrite, kAdd };

// Columns that a block of threads sums on a GPU, at least.
inline constexpr int64_t kLeastSummedCols = 32;

// What changes from batch to batch without a change of shape.
struct StepInputs {
  uint64_t draw = 0;
  float loss_scale = 1.0f;  // all gradients are multiplied by it
};

// One run over the current batch.
struct OpContext {
  const Context& context;
  // Rows of the op's space: the elements of its sequence, or else the rows of the batch. On a
  // GPU the number of elements is rounded up (real_rows), so that recorded passes can run
  // again.
  int64_t rows = 0;
  Phase phase = Phase::kEval;
  uint64_t seed = 0;
  // On the context's device: kernels read it when they run, so that recorded ones can run again.
  const StepInputs* step = nullptr;
  float* parameters = nullptr;
  float* gradients = nullptr;               // gradients of the parameters
  const void* narrow_parameters = nullptr;  // the same in the graph's 16-bit type, if it has one
  float* statistics = nullptr;
  float* workspace = nullptr;  // workspace_floats() floats, free for the op during its call
  double* losses = nullptr;    // losses of the graph: each loss writes its own
  const cuda::MatmulLibrary* matmul = nullptr;  // on a GPU
  // On a GPU: zeros, one for every kLeastSummedCols columns of the widest node. A kernel that
  // counts in them leaves zeros.
  unsigned* counters = nullptr;

  // ---- ops of a sequence ----
  int64_t batch_rows = 0;
  // On the context's device, and read by kernels when they run: where the elements of a row begin
  // [batch_rows + 1], and the row of each element [rows], which is -1 for padding.
  const int32_t* offsets = nullptr;
  const int32_t* row_of = nullptr;
  // On a GPU: the number of elements; rows from there on are padding. Their values are finite but
  // otherwise undefined, their gradients must be 0, and statistics must not count them. Null: there
  // is no padding.
  const int32_t* real_rows = nullptr;
};

// Matrix products of 16-bit rows are many times slower where rows do not begin at multiples of 16
// bytes.
inline constexpr int64_t kAligned = 8;  // elements
inline int64_t aligned(int64_t elements) { return (elements + kAligned - 1) / kAligned * kAligned; }

// Collects the parameters (or statistics) that the ops of a graph ask for.
class ParameterSet {
 public:
  // Returns where the [rows, cols] floats begin: at a multiple of kAligned elements, with zeros
  // from their end to the next multiple.
  enum class Decay { kNo, kYes };  // whether it is a weight, which decays
  int64_t add(std::string name, int64_t rows, int64_t cols, Initial initial,
              Decay decay = Decay::kNo);
  int64_t add_weight(std::string name, int64_t rows, int64_t cols, Initial initial) {
    return add(std::move(name), rows, cols, initial, Decay::kYes);
  }
  int64_t floats() const { return floats_; }
  const std::vector<Parameter>& list() const { return list_; }
  // Draws each value from (seed, name of the parameter, position) alone.
  void initialize(uint64_t seed, float* values) const;

 private:
  std::vector<Parameter> list_;
  std::vector<Initial> initials_;
  int64_t floats_ = 0;
};

// A layer. Built with the graph; its tensors point into the graph's buffers once that is prepared.
// One thread runs an op at a time; inside, it uses the threads of the context.
class Op {
 public:
  Op(std::vector<Tensor*> inputs, Tensor* output);
  virtual ~Op() = default;
  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;

  virtual const char* kind() const = 0;
  // Whether the output needs a gradient even if no input does.
  virtual bool has_parameters() const { return false; }
  // Whether evaluations do without it and what it alone needs, as without some losses.
  virtual bool is_for_training_only() const { return false; }
  // Whether inputs and output may belong to different spaces, of which one is the batch. Other ops
  // give the output the space of their inputs.
  virtual bool connects_spaces() const { return false; }
  // Allocates what the op keeps from forward to backward, for up to max_rows rows of its space.
  // Called again when there shall be more room for elements: all values and gradients move after
  // it. Where it throws, every buffer is the old or a larger one.
  virtual void prepare(Device, int64_t /*max_rows*/) {}
  virtual int64_t workspace_floats(Device, int64_t /*max_rows*/) const { return 0; }
  virtual double flops_per_row() const { return 0.0; }  // operations per row of its space
  // Values that the op keeps for each row of its space, besides those of nodes.
  virtual int64_t kept_values_per_row() const { return 0; }
  // The part of it for each element of the same row of the batch.
  virtual double flops_per_pair() const { return 0.0; }

  // Whether the input is a label or a weight: an input of the graph that is in fp32 in every
  // precision.
  virtual bool reads_fp32(size_t /*input*/) const { return false; }
  // Whether backward writes a gradient of the input where that needs one.
  virtual bool sends_gradient(size_t /*input*/) const { return true; }

  // Whether rows of all inputs, or of the output, may be padded with zeros (Tensor::stride). The
  // gradients of these are then zero too.
  virtual bool reads_padded_rows() const { return false; }
  virtual bool writes_padded_rows() const { return false; }
  // Whether the output and the inputs that have as many columns need equally long rows.
  virtual bool pads_all_alike() const { return false; }

  // Backward reads the columns of the output's gradient below this number.
  virtual int64_t gradient_cols() const { return output_->cols; }

  // The parameters will not change any more: what forward in Phase::kEval makes of them may be
  // kept.
  virtual void freeze(const float* /*parameters*/) {}

  virtual std::string_view name() const { return ""; }  // name of its parameters
  // State of ops that can compute in int8 on a CPU, which then need ranges before freeze().
  struct Int8Inputs {
    InputRanges ranges;
    InputRecorder recorder;
    bool records = false;  // what evaluations read
  };
  virtual Int8Inputs* int8_inputs() { return nullptr; }

  virtual void forward(const OpContext& pass) = 0;
  // Reads the output's gradient, which it may overwrite, and writes those of inputs and parameters.
  virtual void backward(const OpContext& pass) = 0;

  // Writes what forward computes in Phase::kEval as nodes of ONNX (nn/onnx). False: they are not
  // written, because there is no form of it.
  virtual bool write_onnx(OnnxLayers&) const { return false; }

  const std::vector<Tensor*>& inputs() const { return inputs_; }
  Tensor* output() const { return output_; }  // null for a loss
  void set_write(size_t input, Write write) { writes_[input] = write; }
  // The sequence of an input or of the output, or else the batch.
  Space space() const;
  void set_max_batch_rows(int64_t rows) { max_batch_rows_ = rows; }  // before prepare
  // What the factors of matrix products are rounded to on a CPU.
  void set_product_type(DType type) { product_type_ = type; }

 protected:
  const Tensor& in(size_t i) const { return *inputs_[i]; }
  const Tensor& out() const { return *output_; }
  Write write(size_t i) const { return writes_[i]; }
  int64_t max_batch_rows() const { return max_batch_rows_; }
  DType product_type() const { return product_type_; }

 private:
  std::vector<Tensor*> inputs_;
  std::vector<Write> writes_;
  Tensor* output_;
  int64_t max_batch_rows_ = 0;
  DType product_type_ = DType::kF32;
};

// An op whose passes are written once for each device, as functions of Derived.
template <class Derived, class Base = Op>
class DeviceOp : public Base {
 public:
  using Base::Base;

  void forward(const OpContext& pass) final {
    dispatch(
        pass.context.device, [&] { self().forward_cpu(pass); }, [&] { self().forward_cuda(pass); });
  }
  void backward(const OpContext& pass) final {
    dispatch(
        pass.context.device, [&] { self().backward_cpu(pass); },
        [&] { self().backward_cuda(pass); });
  }

 private:
  Derived& self() { return static_cast<Derived&>(*this); }
};

// ---- how loops over rows are cut on a CPU; borders depend on the number of rows alone ----

// Rows that a thread works on while they are in its cache: of a few sizes the one that lets the
// slowest of 16 threads have the fewest rows, and of equals the largest.
inline int64_t tile_rows(int64_t rows) {
  constexpr int64_t kThreads = 16;
  int64_t best = 0, fewest = 0;
  for (const int64_t size : {192, 160, 128, 96}) {
    const int64_t most = ((rows + size - 1) / size + kThreads - 1) / kThreads * size;
    if (best != 0 && most >= fewest) continue;
    best = size;
    fewest = most;
  }
  return best;
}

// Grain size: rows of a matrix with `cols` columns that a thread works on at a time.
inline int64_t rows_per_chunk(int64_t cols) {
  return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, cols));
}

// Sums over rows (gradients of parameters, statistics) are made per group and then over the groups
// in order, so that they come out the same with any number of threads.
struct RowGroups {
  int64_t rows_each = 0;
  int64_t count = 0;
};
inline constexpr int64_t kMaxRowGroups = 32;
inline RowGroups row_groups(int64_t rows) {
  const int64_t each = std::max<int64_t>(256, (rows + kMaxRowGroups - 1) / kMaxRowGroups);
  return {each, (rows + each - 1) / each};
}

// The same on a GPU, which wants more and smaller groups.
inline constexpr int64_t kMaxDeviceRowGroups = 256;
inline constexpr int64_t kLeastDeviceGroup = 64;
inline RowGroups device_row_groups(int64_t rows) {
  const int64_t each =
      std::max(kLeastDeviceGroup, (rows + kMaxDeviceRowGroups - 1) / kMaxDeviceRowGroups);
  return {each, (rows + each - 1) / each};
}

// Most groups of batches of up to max_rows.
inline int64_t most_row_groups(Device device, int64_t max_rows) {
  return device == Device::kCpu ? row_groups(max_rows).count
                                : std::min(kMaxDeviceRowGroups,
                                           (max_rows + kLeastDeviceGroup - 1) / kLeastDeviceGroup);
}

// On a CPU: out[i] = the sum over groups of parts[group * size + i].
void sum_groups(const Context& context, const float* parts, int64_t groups, int64_t size,
                float* out);

// Calls body(std::false_type) to overwrite or body(std::true_type) to add, so that loops are
// compiled for each; nothing for kNone.
template <class Body>
void with_write(Write write, Body&& body) {
  if (write == Write::kOverwrite) body(std::false_type{});
  if (write == Write::kAdd) body(std::true_type{});
}

}  // namespace emblem
