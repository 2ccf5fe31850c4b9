// train/state/dense_values.h - everything a learner trains besides its tables, in host memory and
// in dense.safetensors.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"
#include "train/learner/learner.h"

namespace emblem {

struct DenseValues {
  std::vector<float> parameters, statistics;  // as the graph lays them out
  // States of each of Learner::dense_parts: [states, its parameters], without padding.
  std::vector<std::vector<float>> optimizer_states;
  std::vector<float> average;      // as parameters; empty without one or before its first update
  std::vector<float> accumulated;  // as parameters; empty without one, or when it is all zero
};

DenseValues read_dense(Learner& learner);
void write_dense(Learner& learner, const DenseValues& values);

// Parameters and statistics by tensor name, optimizer state as [states, parameters]. Valid while
// `values` is.
std::vector<TensorRef> dense_tensors(Learner& learner, const DenseValues& values);

// Reads what only training needs into `values`, which read_dense made: optimizer state, the average
// and accumulated gradients. The latter two may be missing in the file.
void read_training_state(const SafetensorsFile& file, Learner& learner, DenseValues& values);

// The values of one parameter or statistic.
template <class T>
std::span<T> part_of(std::span<T> all, const Parameter& part) {
  return all.subspan(part.begin, part.rows * part.cols);
}

// A statistic's name in dense.safetensors; a parameter is stored under its own.
std::string statistic_tensor(const Parameter& statistic);
// The moving average of a parameter.
std::string average_tensor(const Parameter& parameter);
// Whether only training needs a tensor of dense.safetensors.
bool is_training_tensor(std::string_view name);

}  // namespace emblem
