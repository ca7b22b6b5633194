# The C++ client's part of ./dev. Sourced by dev.
# shellcheck shell=bash

# It is built with the rest of the project, which ./dev lint and ./dev format cover, too.
cpp_setup() { :; }
cpp_lint() { :; }
cpp_format() { :; }

# The helpers' vectors, the scenarios and the example. What needs no scenario host is ctest's. The
# scenarios mostly wait, so several processes share them. The last line says how many passed.
cpp_test() {
  local binaries=build/dev/tests/client_cpp shards=4 shard pids=() outputs=() status=0
  local passed failed skipped
  cmake --preset dev >/dev/null &&
    "${without_aslr[@]}" cmake --build --preset dev --parallel "$(nproc)" \
      --target client_cpp_vectors_test client_cpp_scenario_test >&2 || return 1
  mkdir -p build/clients
  rm -f build/clients/cpp-*.out
  "${without_aslr[@]}" "$binaries/client_cpp_vectors_test" >build/clients/cpp-vectors.out 2>&1 || status=1
  outputs=(build/clients/cpp-vectors.out)
  for ((shard = 0; shard < shards; ++shard)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard "${without_aslr[@]}" \
      "$binaries/client_cpp_scenario_test" >"build/clients/cpp-scenarios-$shard.out" 2>&1 &
    pids+=($!)
    outputs+=("build/clients/cpp-scenarios-$shard.out")
  done
  for shard in "${pids[@]}"; do wait "$shard" || status=1; done
  cat "${outputs[@]}"
  # Each case has one such line with its duration.
  passed=$(cat "${outputs[@]}" | grep -cE '^\[       OK \] .* \([0-9]+ ms\)$' || true)
  failed=$(cat "${outputs[@]}" | grep -cE '^\[  FAILED  \] .* \([0-9]+ ms\)$' || true)
  skipped=$(cat "${outputs[@]}" | grep -cE '^\[  SKIPPED \] .* \([0-9]+ ms\)$' || true)
  # A process that died has no line for the case it died in.
  if [[ $status -ne 0 && $failed -eq 0 ]]; then failed=1; fi
  printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  return "$status"
}
