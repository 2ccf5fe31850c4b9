// api/table.h - the state of a public Table, which lookups over it share.
#pragma once

#include <memory>

#include "core/device/workers.h"
#include "embedding/table.h"
#include "emblem/error.h"
#include "emblem/table.h"

namespace emblem {

struct api::Table::State {
  explicit State(const TableOptions& given);

  // Threads of a call that has work for several.
  Workers call_workers() const;

  // Counts a change of rows by `body`. On a CPU, what refuses its arguments has changed none.
  template <class Body>
  void change(const Body& body) {
    try {
      body();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidArgument || context.device != Device::kCpu) ++changes;
      throw;
    } catch (...) {
      ++changes;
      throw;
    }
    ++changes;
  }

  const TableOptions options;
  Workers workers;  // on a GPU: a stream, unless options have one
  Context context;  // without threads on a CPU
  std::unique_ptr<emblem::Table> table;
  float learning_rate = 0;  // of its optimizer
  int64_t updates = 0;
  int64_t changes = 0;            // from outside of lookups
  const void* trainer = nullptr;  // the lookup that trains it
};

}  // namespace emblem
