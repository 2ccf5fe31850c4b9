// nn/ops/attention/din_linear.h - a linear layer over [q, s, q - s, q * s], which are never
// stored.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/device/host_device.h"
#include "core/memory/buffer.h"
#include "kernels/packed_weights.h"
#include "nn/ops/dense/linear.h"
#include "nn/ops/op.h"

namespace emblem {

// out [elements, units] = activation([q, s, q - s, q * s] W^T + b) for q [rows, n], extended by
// zeros, and s [elements, m], n <= m, with the parameters of Linear over DinFeatures: NAME.weight
// [units, 4 m] and NAME.bias. W = [Wq, Ws, Wd, Wp] by columns, so that
//   W [q, s, q - s, q * s] = (Wq + Wd) q + (Ws - Wd) s + Wp (q * s):
// the first is a product over rows of the batch, the others are one of half the columns over
// elements.
class DinLinear : public DeviceOp<DinLinear> {
 public:
  DinLinear(Tensor* q, Tensor* s, Tensor* out, Bias bias, Activation activation,
            const std::string& name, ParameterSet& parameters);
  ~DinLinear() override;

  const char* kind() const override { return "din_linear"; }
  bool has_parameters() const override { return true; }
  bool connects_spaces() const override { return true; }
  double flops_per_row() const override { return 2.0 * static_cast<double>(inputs() * units_); }
  int64_t kept_values_per_row() const override { return inputs(); }
  int64_t workspace_floats(Device device, int64_t max_rows) const override;
  void prepare(Device device, int64_t max_rows) override;
  void freeze(const float* parameters) override;

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

  // How the weights of a unit, [4 m], become those of elements, [m + n], and rows, [n]; and the
  // gradients back. By column.
  struct Fold {
    int64_t n, m;
    EMBLEM_HD float of_element(const float* weight, int64_t j) const {
      return j < m ? weight[m + j] - weight[2 * m + j] : weight[2 * m + j];
    }
    EMBLEM_HD float of_row(const float* weight, int64_t j) const {
      return weight[j] + weight[2 * m + j];
    }
    EMBLEM_HD float gradient(const float* element, const float* row, int64_t column) const {
      const int64_t part = column / m, j = column - part * m;
      const float to_row = j < n ? row[j] : 0.0f;
      if (part == 0) return to_row;
      if (part == 1) return element[j];
      if (part == 2) return to_row - element[j];
      return j < n ? element[m + j] : 0.0f;
    }
  };

 private:
  Fold fold() const { return {n_, m_}; }
  int64_t inputs() const { return m_ + n_; }  // inputs of elements: s and q * s

  // ---- CPU ----
  struct Scratch;
  RowGroups groups(int64_t elements, int64_t batch_rows) const;
  void fold_weights(const OpContext& pass);
  void multiply_rows(const OpContext& pass);
  void make_products(const OpContext& pass, int64_t begin, int64_t end, Matrix<float> to) const;
  template <class F>
  void undo_activation(const OpContext& pass, int64_t begin, int64_t end, F f);
  void backward_rows(const OpContext& pass, int64_t begin, int64_t end, Scratch& scratch);
  void spread(const OpContext& pass, int64_t begin, int64_t end, Matrix<const float> gradients);
  void sum_row_gradients(const OpContext& pass);

  // ---- GPU ----
  struct Products;  // the matrix products for numbers of rows and elements
  Products& products_for(const OpContext& pass);
  std::shared_ptr<Products> plan_products(const OpContext& pass);
  // Columns of products and of their weights: in 16 bits padded with zeros.
  int64_t stride() const { return out().dtype == DType::kF32 ? inputs() : aligned(inputs()); }
  bool learns() const { return out().keeps_gradient; }

  Activation activation_;
  int64_t n_, m_, units_;
  int64_t weight_ = -1, bias_ = -1;  // in the buffers of parameters and gradients
  // Folded weights and their gradients; W of rows times q plus the bias, and its gradient.
  Buffer<float> element_weights_, row_weights_, element_gradients_, row_gradients_;
  Buffer<float> row_part_, row_part_gradient_;        // [batch rows, units]
  cpu::PackedWeights packed_elements_, packed_rows_;  // for predictions on the CPU
  bool frozen_ = false;
  // On a GPU, in the type of the graph:
  Buffer<char> typed_element_weights_, typed_row_weights_, typed_row_part_gradient_;
  Buffer<char> products_, product_gradients_;  // [elements, stride]: s and q * s
  std::vector<std::shared_ptr<Products>> planned_;
};

}  // namespace emblem
