#include "store/kv_store.h"

namespace emblem {

void KvTable::fetch_together(std::span<KvFetch* const> fetches) const {
  for (KvFetch* one : fetches) {
    try {
      one->hits = one->table->fetch(one->keys, one->rows, one->found);
    } catch (const Error& error) {
      one->error = error;
    }
  }
}

void fetch_all(std::span<KvFetch> fetches) {
  std::vector<bool> done(fetches.size());
  for (size_t i = 0; i < fetches.size(); ++i) {
    if (done[i]) continue;
    std::vector<KvFetch*> group;
    for (size_t j = i; j < fetches.size(); ++j) {
      if (done[j] || fetches[j].table->fetch_group() != fetches[i].table->fetch_group()) continue;
      group.push_back(&fetches[j]);
      done[j] = true;
    }
    fetches[i].table->fetch_together(group);
  }
}

}  // namespace emblem
