#include "embedding/lookup.h"

#include "embedding/cpu/host_lookup.h"
#include "embedding/cuda/device_lookup.h"
#include "embedding/cuda/device_table.h"

namespace emblem {

void Lookup::add_squared_gradient_norm(const Context&, ConstAnyView, ExactSum&) {
  throw Error(ErrorCode::kUnsupported,
              "lookup: norms that do not depend on order are computed on a CPU");
}

void check_batch(std::span<const FeatureKeys> features, std::span<Table* const> tables,
                 int64_t width, AnyView out) {
  EMBLEM_REQUIRE(features.size() == tables.size(), "lookup: keys of ", features.size(),
                 " features were given, but there are ", tables.size());
  EMBLEM_REQUIRE(out.cols == width, "lookup: output rows have ", out.cols, " floats, but need ",
                 width);
  EMBLEM_REQUIRE(out.size() < int64_t{1} << 32, "lookup: the output has ", out.size(),
                 " floats, more than 2^32: lower the batch size");
  for (size_t f = 0; f < features.size(); ++f) {
    const FeatureKeys& keys = features[f];
    const std::string& table = tables[f]->settings().name;
    const int64_t count = keys.keys.size();
    EMBLEM_REQUIRE(keys.weights.size() == 0 || keys.weights.size() == count, "lookup: feature ", f,
                   " (table ", table, ") has ", keys.weights.size(), " weights for ", count,
                   " keys");
    if (keys.offsets.size() == 0) {
      EMBLEM_REQUIRE(count == out.rows, "lookup: feature ", f, " (table ", table, ") has ", count,
                     " keys for ", out.rows, " bags and no offsets");
    } else {
      EMBLEM_REQUIRE(keys.offsets.size() == out.rows + 1, "lookup: feature ", f, " (table ", table,
                     ") has ", keys.offsets.size(), " offsets, but ", out.rows, " bags need ",
                     out.rows + 1);
    }
  }
}

std::unique_ptr<Table> make_table(const Context& context, TableSettings settings) {
  return dispatch(
      context.device,
      [&]() -> std::unique_ptr<Table> { return std::make_unique<HostTable>(context, settings); },
      [&] {
        if (!settings.held.is_everything())
          throw Error(ErrorCode::kUnsupported,
                      cat("table ", settings.name, ": a part of a table cannot be on a GPU yet"));
        return cuda::make_table(context, settings);
      });
}

std::unique_ptr<Lookup> make_lookup(const Context& context, std::span<const LookupFeature> features,
                                    const LookupSettings& settings) {
  return dispatch(
      context.device,
      [&]() -> std::unique_ptr<Lookup> { return std::make_unique<HostLookup>(features); },
      [&] { return cuda::make_lookup(context, features, settings); });
}

}  // namespace emblem
