// data/feature/fg/cell_operator.h - an operator that computes cell by cell, and the list of those
// that there are.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/feature/fg/cells.h"
#include "data/feature/fg/operator.h"
#include "data/format/decoder.h"
#include "emblem/error.h"

namespace emblem {

// Brings rows, elements of sequences and constants to one form: cells.
class CellOperator : public FgOperator {
 public:
  void apply(std::span<const Column* const> inputs, int64_t rows, Column& out,
             const ReportRow& report) const final;

 protected:
  // `inputs` are as many as those of `feature`.
  CellOperator(const FeatureSpec& feature, std::vector<FgInput> inputs, ColumnType output);

  // feature "x"
  const std::string& title() const { return title_; }

  // Removes the values of the open cell, whose row cannot be read because of `problem`.
  template <class... Parts>
  void reject(int64_t row, CellWriter& out, const ReportRow& report,
              const Parts&... problem) const {
    out.clear_cell();
    report(row, cat(title_, ": ", problem...));
  }

 private:
  // Values of the row (not of its sequence) that are read again for each element, over all elements
  // of a row: few bytes make much work. A long text counts as values of 16 bytes.
  static constexpr int64_t kMostReadAgain = 1'000'000, kValueBytes = 16;

  // Whether compute reads that input once for a row.
  virtual bool is_read_once(size_t /*input*/) const { return false; }
  void refuse_long_rows(std::span<const CellReader> inputs, Cells& cells,
                        const ReportRow& report) const;
  // Adds the values of each cell and ends it. `report` takes the row of a cell.
  virtual void compute(std::span<const CellReader> inputs, const Cells& cells, CellWriter& out,
                       const ReportRow& report) const = 0;

  std::string title_;
  std::vector<Column> constants_;  // one for each input; without cells where it is none
};

// Each for the feature message of its name.
std::unique_ptr<FgOperator> make_combo(const FeatureSpec& feature);
std::unique_ptr<FgOperator> make_lookup(const FeatureSpec& feature);
std::unique_ptr<FgOperator> make_match(const FeatureSpec& feature);
std::unique_ptr<FgOperator> make_expr(const FeatureSpec& feature);
std::unique_ptr<FgOperator> make_overlap(const FeatureSpec& feature);
std::unique_ptr<FgOperator> make_tokenize(const FeatureSpec& feature);
std::unique_ptr<FgOperator> make_kv_dot_product(const FeatureSpec& feature);
std::unique_ptr<FgOperator> make_bool_mask(const FeatureSpec& feature);
std::unique_ptr<FgOperator> make_combine(const FeatureSpec& feature);

}  // namespace emblem
