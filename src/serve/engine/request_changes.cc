#include "serve/engine/request_changes.h"

#include <array>

#include "core/system/log.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr std::array kKinds = {&FeatureCounts::cut_sequences, &FeatureCounts::fitted_sequences,
                               &FeatureCounts::ids_in_row_0, &FeatureCounts::infinite_numbers};

}  // namespace

void RequestChanges::note(const FeatureCounts& counts) const {
  for (size_t i = 0; i < kKinds.size(); ++i) {
    const unsigned kind = 1u << i;
    if (counts.*kKinds[i] == 0 || (seen_.fetch_or(kind) & kind) != 0) continue;
    FeatureCounts one;
    one.*kKinds[i] = counts.*kKinds[i];
    log_warn(cat(model_, ": in a batch of requests, ", changes_text(one),
                 " (not mentioned again for this version)"));
  }
}

}  // namespace emblem
