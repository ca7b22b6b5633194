# ./dev simulate: runs the engine on a simulated database, from seeds. Sourced by dev.
# shellcheck shell=bash

# Arguments go to the program; tests/simulation/simulate.cc says which there are.
simulate() {
  need_packages "${build_packages[@]}"
  if ! cmake --preset release -DIDEMPOTENCY_SIMULATION=ON >/dev/null ||
    ! cmake --build --preset release --parallel "$(nproc)" --target simulate >&2; then
    die "the simulation could not be built"
  fi
  build/release/tests/simulation/simulate "$@"
}
