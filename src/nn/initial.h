// nn/initial.h - what a parameter is before training.
#pragma once

#include <cmath>
#include <cstdint>

namespace emblem {

struct Initial {
  enum class Kind { kConstant, kUniform, kNormal } kind = Kind::kConstant;
  float value = 0.0f;  // the constant; the bound of U(-bound, bound); the standard deviation

  static Initial constant(float value) { return {Kind::kConstant, value}; }
  static Initial zeros() { return constant(0.0f); }
  static Initial ones() { return constant(1.0f); }
  static Initial uniform(float bound) { return {Kind::kUniform, bound}; }
  static Initial normal(float deviation) { return {Kind::kNormal, deviation}; }

  // Weights and biases of torch's convolutions and linear layers.
  static Initial linear(int64_t inputs) { return uniform(root_of(1.0f, inputs)); }
  static Initial xavier_uniform(int64_t inputs, int64_t outputs) {
    return uniform(root_of(6.0f, inputs + outputs));
  }
  static Initial xavier_normal(int64_t inputs, int64_t outputs) {
    return normal(root_of(2.0f, inputs + outputs));
  }
  static Initial kaiming_uniform(int64_t inputs) { return uniform(root_of(6.0f, inputs)); }

 private:
  static float root_of(float part, int64_t whole) {
    return std::sqrt(part / static_cast<float>(whole));
  }
};

}  // namespace emblem
