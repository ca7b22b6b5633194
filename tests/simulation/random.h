// The choices of a simulation: all of them come from its seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace idempotency {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  // 0 to bound - 1. Not the standard's distributions: they differ between libraries.
  size_t Below(size_t bound) { return static_cast<size_t>(engine_() % bound); }
  // Once in `times`.
  bool OneIn(size_t times) { return Below(times) == 0; }
  template <typename T>
  const T& Of(const std::vector<T>& choices) {
    return choices[Below(choices.size())];
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace idempotency
