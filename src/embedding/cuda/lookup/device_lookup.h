// embedding/cuda/lookup/device_lookup.h - features over tables on the GPU.
#pragma once

#include <optional>
#include <vector>

#include "core/memory/buffer.h"
#include "embedding/cuda/lookup/batch_layout.h"
#include "embedding/cuda/lookup/find_gather.h"
#include "embedding/cuda/table/device_table.h"
#include "embedding/cuda/table/row_shape.h"
#include "embedding/cuda/update/update_rows.h"
#include "embedding/lookup.h"

namespace emblem::cuda {

struct BatchRef;

// Keys, output and gradients are in device memory. All passes are asynchronous, and can be captured
// in a CUDA graph once a pass of that size has run. A captured pass can be replayed during the
// lifetime of the lookup, mixed with others: everything that changes from pass to pass is in device
// memory.
//
// Errors that kernels find (keys outside a static table, a full table) are thrown by a later call,
// at the latest by check().
class DeviceLookup : public Lookup {
 public:
  DeviceLookup(const Context& context, std::span<const LookupFeature> features,
               const LookupSettings& settings = {});
  ~DeviceLookup() override;

  // With LookupSettings::placed: places count elements of `type`, also where the output is
  // narrower.
  void count_places_in(DType type) { place_type_ = type; }

  int64_t width() const override { return width_; }
  void forward(const Context& context, std::span<const FeatureKeys> features, Phase phase,
               AnyView out) override;
  void prefetch(const Context& context, std::span<const FeatureKeys> features) override;
  double squared_gradient_norm(const Context& context, ConstAnyView gradients) override;
  void add_squared_gradient_norm(const Context& context, ConstAnyView gradients,
                                 ExactSum& sum) override;
  void backward(const Context& context, ConstAnyView gradients, float scale, float learning_rate,
                int64_t step) override;
  void set_step(const Context& context, const StepScalars& scalars) override;
  void backward_as_set(const Context& context, ConstAnyView gradients) override;
  void check(const Context& context) override;
  std::vector<LookupCounts> take_counts(const Context& context) override;

 private:
  // Tables whose rows one kernel updates.
  struct Class {
    RowShape shape;
    DType dtype;
    Rule rule;
    float l2;
    bool trainable;
    Rounding rounding;
  };

  int class_of(const DeviceTable& table, bool in_fours);
  int class_of_table(int table) const;
  void make_room_to_train(const Context& context, int64_t positions);
  void make_room_to_read(const Context& context, int64_t positions);
  void make_room_to_stage(const Context& context, int64_t positions);
  // The batch without the scratch memory of the pass.
  BatchRef make_batch(std::span<const FeatureKeys> features);
  void set_output(AnyView out, BatchRef& batch) const;
  void evaluate(const Context& context, std::span<const FeatureKeys> features, AnyView out);
  void train(const Context& context, std::span<const FeatureKeys> features, AnyView out);
  void gather(const Context& context, const BatchRef& batch, GatherMode mode) const;
  void stage(const Context& context, const BatchRef& batch);
  UpdateRows update_of(size_t cls, ConstAnyView gradients) const;
  void update(const Context& context, ConstAnyView gradients, const StepScalars* scalars);
  void refresh_tables(const Context& context);
  // Replaces scratch memory that has too few positions by a larger one.
  template <class T, class... Arguments>
  void grow(const Context& context, T& scratch, int64_t positions, Arguments... rest);
  void wait_for_prefetch(const Context& context);
  void check_gradients(ConstAnyView gradients) const;

  std::vector<Table*> feature_tables_;
  BatchLayout layout_;
  std::vector<DeviceTable*> tables_;
  std::vector<Class> classes_;
  LookupSettings settings_;
  int64_t width_ = 0;
  int64_t partial_stride_ = 0;
  std::optional<DType> place_type_;
  bool ready_for_backward_ = false;
  int64_t out_rows_ = 0, out_cols_ = 0;  // shape of the output of the last training pass
  bool cached_ = false;                  // some table has a cache

  struct Prefetching;
  std::unique_ptr<Prefetching> prefetching_;  // made by the first prefetch

  struct Scratch;
  std::unique_ptr<Scratch> scratch_;
  bool captured_ = false;                       // some pass is in a graph, ...
  std::vector<std::shared_ptr<void>> retired_;  // ... which may still use this scratch
  std::vector<int64_t> table_versions_;         // versions of the refs that scratch_ has
  std::unique_ptr<BatchRef> batch_;             // batch of the last training pass
};

std::unique_ptr<Lookup> make_lookup(const Context& context, std::span<const LookupFeature> features,
                                    const LookupSettings& settings);

}  // namespace emblem::cuda
