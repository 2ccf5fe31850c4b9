#include "data/source/object_store.h"

namespace emblem {

std::unique_ptr<ObjectStore> make_store(const ObjectUri& uri, const StoreOptions& options) {
  return uri.kind == StoreKind::kHttp ? make_http_store(uri, options)
                                      : make_arrow_store(uri, options);
}

}  // namespace emblem
