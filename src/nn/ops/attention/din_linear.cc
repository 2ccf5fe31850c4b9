#include "nn/ops/attention/din_linear.h"

namespace emblem {

DinLinear::DinLinear(Tensor* q, Tensor* s, Tensor* out, Bias bias, Activation activation,
                     const std::string& name, ParameterSet& parameters)
    : DeviceOp({q, s}, out), activation_(activation), n_(q->cols), m_(s->cols), units_(out->cols) {
  weight_ = parameters.add_weight(name + ".weight", units_, 4 * m_,
                                  Initial::xavier_uniform(4 * m_, units_));
  if (bias == Bias::kTrained) bias_ = parameters.add(name + ".bias", 1, units_, Initial::zeros());
}

DinLinear::~DinLinear() = default;

void DinLinear::prepare(Device device, int64_t max_rows) {
  planned_.clear();  // for where values were before
  element_weights_ = Buffer<float>(device, units_, inputs());
  row_weights_ = Buffer<float>(device, units_, n_);
  row_part_ = Buffer<float>(device, max_batch_rows(), units_);
  if (learns()) {
    element_gradients_ = Buffer<float>(device, units_, stride());
    row_gradients_ = Buffer<float>(device, units_, n_);
    row_part_gradient_ = Buffer<float>(device, max_batch_rows(), units_);
  }
  if (device == Device::kCpu) return;
  const int64_t bytes = size_of(out().dtype);
  typed_element_weights_ = Buffer<char>(device, units_, stride() * bytes);
  typed_row_weights_ = Buffer<char>(device, units_, n_ * bytes);
  products_ = Buffer<char>(device, max_rows, stride() * bytes);
  if (!learns()) return;
  product_gradients_ = Buffer<char>(device, max_rows, stride() * bytes);
  typed_row_part_gradient_ = Buffer<char>(device, max_batch_rows(), units_ * bytes);
}

}  // namespace emblem
