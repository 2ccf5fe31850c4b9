#include "embedding/lookup.h"

#include "embedding/cpu/host_lookup.h"
#include "embedding/cuda/lookup/device_lookup.h"
#include "embedding/cuda/table/device_table.h"

namespace emblem {

namespace {

void check_features(std::span<const FeatureKeys> features, std::span<Table* const> tables,
                    const AnyView& out) {
  EMBLEM_REQUIRE(features.size() == tables.size(), "lookup: keys of ", features.size(),
                 " features were given, but there are ", tables.size());
  EMBLEM_REQUIRE(out.size() < int64_t{1} << 32, "lookup: the output has ", out.size(),
                 " floats, more than 2^32: lower the batch size");
}

}  // namespace

void Lookup::add_squared_gradient_norm(const Context&, ConstAnyView, ExactSum&) {
  throw Error(ErrorCode::kUnsupported, "lookup: this lookup computes no exact norms");
}

void check_batch(std::span<const FeatureKeys> features, std::span<Table* const> tables,
                 int64_t width, AnyView out) {
  check_features(features, tables, out);
  EMBLEM_REQUIRE(out.cols == width, "lookup: output rows have ", out.cols, " floats, but need ",
                 width);
  for (size_t f = 0; f < features.size(); ++f) {
    const FeatureKeys& keys = features[f];
    const std::string& table = tables[f]->settings().name;
    const int64_t count = keys.keys.size();
    EMBLEM_REQUIRE(keys.weights.size() == 0 || keys.weights.size() == count, "lookup: feature ", f,
                   " (table ", table, ") has ", keys.weights.size(), " weights for ", count,
                   " keys");
    EMBLEM_REQUIRE(keys.places.size() == 0, "lookup: feature ", f, " (table ", table,
                   ") has places, but the lookup is not made for them");
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

void check_placed_batch(std::span<const FeatureKeys> features, std::span<Table* const> tables,
                        AnyView out) {
  check_features(features, tables, out);
  for (size_t f = 0; f < features.size(); ++f) {
    const FeatureKeys& keys = features[f];
    EMBLEM_REQUIRE(keys.places.size() == keys.keys.size() && keys.offsets.size() == 0 &&
                       keys.weights.size() == 0,
                   "lookup: feature ", f, " (table ", tables[f]->settings().name, ") has ",
                   keys.places.size(), " places for ", keys.keys.size(),
                   " keys; a placed lookup needs one each, without offsets and weights");
  }
}

std::unique_ptr<Table> make_table(const Context& context, TableSettings settings) {
  return dispatch(
      context.device,
      [&]() -> std::unique_ptr<Table> { return std::make_unique<HostTable>(context, settings); },
      [&] { return cuda::make_table(context, settings); });
}

std::unique_ptr<Lookup> make_lookup(const Context& context, std::span<const LookupFeature> features,
                                    const LookupSettings& settings) {
  return dispatch(
      context.device,
      [&]() -> std::unique_ptr<Lookup> { return std::make_unique<HostLookup>(features); },
      [&] { return cuda::make_lookup(context, features, settings); });
}

}  // namespace emblem
