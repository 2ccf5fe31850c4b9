// nn/ops/dense/linear.h - y = activation(x W^T + b).
#pragma once

#include <memory>
#include <string>

#include "kernels/packed_weights.h"
#include "nn/ops/op.h"

namespace emblem {

enum class Bias { kNone, kTrained };

// Adds the parameters NAME.weight [units, inputs] and, with a bias, NAME.bias [1, units]. The
// activation is one that can_be_fused.
class Linear : public DeviceOp<Linear> {
 public:
  Linear(Tensor* x, Tensor* out, Bias bias, Activation activation, const std::string& name,
         ParameterSet& parameters, const Graph::LinearInitial& initial = {})
      : DeviceOp({x}, out),
        name_(name),
        activation_(activation),
        inputs_(x->cols),
        units_(out->cols) {
    weight_ =
        parameters.add_weight(name + ".weight", units_, inputs_,
                              initial.weight.value_or(Initial::xavier_uniform(inputs_, units_)));
    if (bias == Bias::kTrained)
      bias_ = parameters.add(name + ".bias", 1, units_, initial.bias.value_or(Initial::zeros()));
  }

  Activation activation() const { return activation_; }
  int64_t inputs_count() const { return inputs_; }
  int64_t units() const { return units_; }
  int64_t weight() const { return weight_; }  // where it begins in the buffer of parameters
  int64_t bias() const { return bias_; }      // likewise; -1: none

  const char* kind() const override { return "linear"; }
  bool has_parameters() const override { return true; }
  double flops_per_row() const override { return 2.0 * static_cast<double>(inputs_ * units_); }
  int64_t workspace_floats(Device device, int64_t max_rows) const override;
  void prepare(Device device, int64_t max_rows) override;
  bool reads_padded_rows() const override { return true; }
  // Zeros stay zeros, but for that one.
  bool writes_padded_rows() const override {
    return units_ > 1 && activation_ != Activation::kSigmoid;
  }
  void freeze(const float* parameters) override;
  std::string_view name() const override { return name_; }
  Int8Inputs* int8_inputs() override { return units_ > 1 ? &int8_ : nullptr; }
  // On the CPU and after freeze(): a layer that reads this one's output. Predictions of many rows
  // compute both, part by part of the rows, while these are in a thread's cache.
  void set_follower(Linear& layer) { follower_ = &layer; }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  // ---- CPU ----
  void predict(const OpContext& pass);
  void predict_chain(const OpContext& pass, int64_t rows_each);
  void predict_part(const OpContext& pass, Matrix<const float> x, int64_t row, int64_t unit,
                    int64_t units, const cpu::CopiedRows* copies, int64_t next_unit) const;
  bool can_follow() const { return frozen_ && !int8_.records; }
  void pack(const OpContext& pass, cpu::PackedWeights& to, Transpose transpose,
            cpu::Rows rows = cpu::Rows::kMany) const;
  bool sums_weights_by_group() const;
  Matrix<const float> input(const OpContext& pass) const {
    return {in(0).value(), pass.rows, inputs_};
  }
  template <class F>
  void backward_rows(const OpContext& pass, int64_t begin, int64_t end, float* bias_gradient,
                     float* weight_gradient, F f) const;
  void backward_to_input(const OpContext& pass, Matrix<const float> dz, int64_t begin,
                         int64_t end) const;

  // ---- GPU ----
  struct Products;  // the matrix products for a number of rows
  Products& products_for(const OpContext& pass);
  std::shared_ptr<Products> plan_products(const OpContext& pass);
  // Rows at odd places, as those of embeddings may be, are copied to better ones.
  bool copies_input() const {
    return out().dtype != DType::kF32 && units_ > 1 && in(0).stride % kAligned != 0;
  }
  int64_t input_stride() const { return copies_input() ? aligned(inputs_) : in(0).stride; }
  bool padded() const { return input_stride() != inputs_ || out().stride != units_; }
  void forward_one_unit(const OpContext& pass);
  void backward_one_unit(const OpContext& pass);

  std::string name_;
  Activation activation_;
  int64_t inputs_, units_;
  int64_t weight_ = -1, bias_ = -1;  // in the buffers of parameters and gradients
  // On the CPU: for predictions and, where that pays, for training; W^T for gradients of inputs.
  cpu::PackedWeights packed_, packed_back_;
  bool frozen_ = false;
  Linear* follower_ = nullptr;
  bool computed_ = false;  // by the layer before, for the current batch
  Int8Inputs int8_;
  std::vector<float> int8_bias_;  // with the offsets of packed_
  std::vector<std::shared_ptr<Products>> products_;
  // Where rows of input or output are padded with zeros (Tensor::stride), so are the weights
  // here.
  Buffer<uint16_t> padded_weights_;
  Buffer<float> padded_gradients_;
  Buffer<uint16_t> copied_input_, copied_input_gradient_;
};

}  // namespace emblem
