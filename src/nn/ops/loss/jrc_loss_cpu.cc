#include <algorithm>
#include <cmath>
#include <numeric>

#include "nn/ops/loss/jrc_loss.h"
#include "nn/ops/loss/loss_sums.h"

namespace emblem {
namespace {

// Calls body(first, last) for the rows of each session, in the order of `order`.
template <class Body>
void for_each_session(const int64_t* sessions, const int32_t* order, int64_t rows, Body&& body) {
  for (int64_t first = 0; first < rows;) {
    int64_t last = first + 1;
    while (last < rows && sessions[order[last]] == sessions[order[first]]) ++last;
    body(first, last);
    first = last;
  }
}

}  // namespace

void JrcLoss::prepare(Device device, int64_t max_rows) {
  Loss::prepare(device, max_rows);
  others_ = Buffer<float>(device, max_rows);
  dispatch(
      device, [&] { order_ = Buffer<int32_t>(device, max_rows); },
      [&] { session_order_.prepare(max_rows); });
}

void JrcLoss::forward_cpu(const OpContext& pass) {
  if (is_off(pass)) return void(*value(pass) = 0.0);
  const float* logits = in(0).value();
  const int64_t* sessions = in(1).value<int64_t>();
  const RowTargets targets = row_targets();
  int32_t* order = order_.data();
  std::iota(order, order + pass.rows, 0);
  std::stable_sort(order, order + pass.rows,
                   [&](int32_t a, int32_t b) { return sessions[a] < sessions[b]; });
  for_each_session(sessions, order, pass.rows, [&](int64_t first, int64_t last) {
    for (const int label : {0, 1}) {  // label of the rows that `others` is for
      double most = -INFINITY, sum = 0.0;
      const auto for_each_other = [&](auto body) {
        for (int64_t i = first; i < last; ++i)
          if (targets.label_of(order[i]) == static_cast<float>(1 - label))
            body(static_cast<double>(logits[2 * order[i] + label]));
      };
      for_each_other([&](double x) { most = std::max(most, x); });
      for_each_other([&](double x) { sum += std::exp(x - most); });
      for (int64_t i = first; i < last; ++i)
        if (targets.label_of(order[i]) == static_cast<float>(label))
          others_.data()[order[i]] = static_cast<float>(most + std::log(sum));
    }
  });
  const WeightedSum sum = sum_rows(pass, [&](int64_t r, WeightedSum& part) {
    const JrcRow row{
        alpha_, {logits[2 * r], logits[2 * r + 1]}, targets.label_of(r), others_.data()[r]};
    part.add(row.loss(), targets.weight_of(r));
  });
  *total_weight().data() = sum.weight;
  *value(pass) = sum.mean(target().factor);
}

void JrcLoss::backward_cpu(const OpContext& pass) {
  const float* logits = in(0).value();
  const RowTargets targets = row_targets();
  const int32_t* order = order_.data();
  const float share = pass.step->loss_scale * share_of(*total_weight().data(), target().factor);
  with_write(write(0), [&](auto add) {
    float* dx = in(0).gradient();
    for_each_session(in(1).value<int64_t>(), order, pass.rows, [&](int64_t first, int64_t last) {
      const auto row_at = [&](int64_t r) {
        return JrcRow{
            alpha_, {logits[2 * r], logits[2 * r + 1]}, targets.label_of(r), others_.data()[r]};
      };
      // By label: the pull of all rows on those of the other label, and what that is divided over.
      double pulls[2] = {}, totals[2] = {};
      for (int64_t i = first; i < last; ++i) {
        const JrcRow row = row_at(order[i]);
        if (!row.is_known()) continue;
        pulls[row.is_positive()] += targets.weight_of(order[i]) * row.pull();
        totals[row.is_positive()] = row.others;
      }
      for (int64_t i = first; i < last; ++i) {
        const int64_t r = order[i];
        const JrcRow row = row_at(r);
        for (const int column : {0, 1}) {
          float slope = targets.weight_of(r) * row.slope(column);
          // Rows of label `column` see this one among their others.
          if (row.is_known() && row.is_positive() != (column == 1) && pulls[column] != 0.0)
            slope +=
                static_cast<float>(pulls[column] * std::exp(row.logits[column] - totals[column]));
          dx[2 * r + column] = (add ? dx[2 * r + column] : 0.0f) + share * slope;
        }
      }
    });
  });
}

}  // namespace emblem
