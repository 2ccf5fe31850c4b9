#include "model/lookup/staged_lookup.h"

#include <cstring>

#include "core/memory/buffer.h"
#include "emblem/error.h"

namespace emblem {
namespace {

class StagedLookup final : public Lookup {
 public:
  explicit StagedLookup(std::unique_ptr<Lookup> host) : host_(std::move(host)) {}

  int64_t width() const override { return host_->width(); }

  void forward(const Context& context, std::span<const FeatureKeys> features, Phase phase,
               AnyView out) override {
    memory_.resize(features.size());
    keys_.clear();
    for (size_t f = 0; f < features.size(); ++f)
      keys_.push_back({fetch(context, features[f].keys, memory_[f].keys),
                       fetch(context, features[f].offsets, memory_[f].offsets),
                       fetch(context, features[f].weights, memory_[f].weights)});
    context.synchronize();
    rows_.resize(static_cast<size_t>(out.size()));
    host_->forward({.threads = context.threads}, keys_, phase, {rows_.data(), out.rows, out.cols});
    narrow(out.dtype);
    detail::copy(context, out.data, rows_.data(),
                 static_cast<size_t>(out.size() * size_of(out.dtype)));
    context.synchronize();  // rows_ is free again
  }

  double squared_gradient_norm(const Context&, ConstAnyView) override { refuse(); }
  void backward(const Context&, ConstAnyView, float, float, int64_t) override { refuse(); }
  std::vector<LookupCounts> take_counts(const Context& context) override {
    return host_->take_counts({.threads = context.threads});
  }

 private:
  struct Memory {
    std::vector<int64_t> keys;
    std::vector<int32_t> offsets;
    std::vector<float> weights;
  };

  [[noreturn]] static void refuse() {
    throw Error(ErrorCode::kUnsupported, "rows that are looked up on the host are not trained");
  }

  template <class T>
  static View<const T> fetch(const Context& context, View<const T> from, std::vector<T>& to) {
    to.resize(static_cast<size_t>(from.size()));
    if (!to.empty()) detail::copy(context, to.data(), from.data, to.size() * sizeof(T));
    return {to.data(), from.size(), 1};
  }

  // In place: an element of 16 bits is never behind the one that it is made of.
  void narrow(DType type) {
    if (type == DType::kF32) return;
    auto* to = reinterpret_cast<char*>(rows_.data());
    for (size_t i = 0; i < rows_.size(); ++i) {
      const uint16_t bits =
          type == DType::kBf16 ? Bf16::from(rows_[i]).bits : F16::from(rows_[i]).bits;
      std::memcpy(to + 2 * i, &bits, sizeof(bits));
    }
  }

  std::unique_ptr<Lookup> host_;
  std::vector<Memory> memory_;
  std::vector<FeatureKeys> keys_;
  std::vector<float> rows_;
};

}  // namespace

std::unique_ptr<Lookup> make_staged_lookup(std::unique_ptr<Lookup> host) {
  return std::make_unique<StagedLookup>(std::move(host));
}

}  // namespace emblem
