# ./dev test: both sanitizer presets, one closing line. Sourced by dev.
# shellcheck shell=bash

# Sanitizers map fixed address ranges, and kernels that randomise more bits than they expect (recent
# ones do) make them die at start, now and then. Where switching it off is forbidden we go without.
without_aslr=()
if setarch "$(uname -m)" --addr-no-randomize true 2>/dev/null; then
  without_aslr=(setarch "$(uname -m)" --addr-no-randomize)
fi

# Counts the test cases in the JUnit file $1 whose status matches $2.
count_cases() {
  grep -cE "^[[:space:]]*<testcase .* status=\"($2)\"" "$1" || true
}

# Builds and tests one preset and adds to the counts of run_tests, whose variables it uses. A build
# that fails, or a ctest that fails without a failed test, counts as one failure.
test_preset() {
  local preset=$1 results=build/$1/junit.xml status=0 bad none=error
  shift
  # A filter may leave one preset without tests.
  [[ $# -eq 0 ]] || none=ignore
  rm -f "$results"
  if ! build_preset "$preset"; then
    failures+=("$preset: the build")
    return
  fi
  # Scenarios need their host: test_clients runs them.
  "${without_aslr[@]}" ctest --test-dir "build/$preset" --output-on-failure --parallel 2 \
    --label-exclude '^scenario$' --no-tests="$none" --output-junit "$root/$results" "$@" || status=$?
  if [[ ! -f $results ]]; then
    failures+=("$preset: ctest wrote no results")
    return
  fi
  mapfile -t bad < <(sed -n 's/.*<testcase name="\([^"]*\)".*status="fail".*/\1/p' "$results")
  failures+=("${bad[@]/#/$preset: }")
  if [[ $status -ne 0 && ${#bad[@]} -eq 0 ]]; then
    failures+=("$preset: ctest ended with status $status")
  fi
  passed=$((passed + $(count_cases "$results" run)))
  skipped=$((skipped + $(count_cases "$results" 'notrun|disabled')))
}

sanitizer_options() {
  export ASAN_OPTIONS="detect_leaks=1:${ASAN_OPTIONS:-}"
  export UBSAN_OPTIONS="print_stacktrace=1:${UBSAN_OPTIONS:-}"
  export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:suppressions=$root/tests/tsan.supp:${TSAN_OPTIONS:-}"
}

# The closing line, from the counts of the function that calls it. Returns whether all passed.
close_tests() {
  if [[ $passed -eq 0 && ${#failures[@]} -eq 0 ]]; then failures+=("no test was run"); fi
  if [[ ${#failures[@]} -gt 0 ]]; then
    printf '\nFailed:\n'
    printf '  %s\n' "${failures[@]}"
  fi
  printf '\n%d passed, %d failed' "$passed" "${#failures[@]}"
  if [[ $skipped -gt 0 ]]; then printf ', %d skipped' "$skipped"; fi
  printf '\n'
  [[ ${#failures[@]} -eq 0 ]]
}

# Arguments go to ctest, for both presets; then only C++ is tested.
run_tests() {
  local passed=0 skipped=0 failures=()
  need_packages "${build_packages[@]}"
  need_grpcurl || say "grpcurl could not be installed; the test that needs it will fail"
  sanitizer_options
  test_preset dev "$@"
  test_preset tsan "$@"
  if [[ $# -eq 0 ]]; then
    test_clients
    test_harness
    test_chaos
  fi
  close_tests
}

# The tests of tests/harness, with the counts of run_tests.
test_harness() {
  mkdir -p build/clients
  IDEMPOTENCYD=$root/build/dev/server/idempotencyd harness_test 2>&1 | tee build/clients/harness.out || true
  count_closing_line harness build/clients/harness.out
}

# The cut of ./dev chaos, and three planted faults that it has to find, likewise. Each counts as one test.
test_chaos() {
  say "chaos"
  mkdir -p build/clients
  IDEMPOTENCYD=$root/build/dev/server/idempotencyd chaos_test 2>&1 | tee build/clients/chaos.out || true
  count_closing_line chaos build/clients/chaos.out
}

# Arguments are languages; none: all.
run_client_tests() {
  local passed=0 skipped=0 failures=() language
  for language in "$@"; do
    [[ " ${client_languages[*]} " == *" $language "* ]] ||
      die "there is no client in '$language', only in: ${client_languages[*]}"
  done
  need_packages "${build_packages[@]}"
  sanitizer_options
  if build_preset dev; then
    test_clients "$@"
  else
    failures+=("dev: the build")
  fi
  close_tests
}
