# ./dev bench: measures the service on this machine and prints one table. Sourced by dev.
# shellcheck shell=bash

# Arguments go to the program; tests/bench/bench.cc says which there are.
bench() {
  need_packages "${build_packages[@]}"
  if ! cmake --preset release -DIDEMPOTENCY_BENCH=ON >/dev/null ||
    ! cmake --build --preset release --parallel "$(nproc)" --target bench >&2; then
    die "the benchmark could not be built"
  fi
  printf '%s, %s, %s processors, %s\n\n' "$(git describe --always --dirty 2>/dev/null || echo 'no commit')" \
    "$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" "$(uname -sr)"
  build/release/tests/bench/bench "$@"
}
