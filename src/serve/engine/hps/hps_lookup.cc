#include "serve/engine/hps/hps_lookup.h"

#include "embedding/cpu/gather_pool.h"
#include "ps/tables/row_finder.h"

namespace emblem {
namespace {

class HostLookup final : public HpsLookup {
 public:
  explicit HostLookup(std::vector<ServedTable*> tables)
      : tables_(std::move(tables)), finder_(tables_) {}

  void copy_rows(std::span<const View<const int64_t>> keys, float* to) override {
    const RowFinder::Reading reading = finder_.find({}, keys);
    for (size_t t = 0; t < tables_.size(); ++t) {
      const ServedTableSettings& table = tables_[t]->settings();
      const GatherPool copy{.rows = {.dim = table.dim, .dtype = finder_.format(t).type},
                            .keys = keys[t].data,
                            .stored_rows = finder_.rows(t),
                            .bags = keys[t].size(),
                            .absent = table.missing,
                            .seed = table.seed,
                            .out = to,
                            .out_stride = table.dim};
      cpu::gather_pool(copy, 0, copy.bags);
      to += copy.bags * table.dim;
    }
  }

 private:
  std::vector<ServedTable*> tables_;
  RowFinder finder_;
};

}  // namespace

std::unique_ptr<HpsLookup> make_host_lookup(std::vector<ServedTable*> tables) {
  return std::make_unique<HostLookup>(std::move(tables));
}

}  // namespace emblem
