# The clients in every language: their tests, formatters and linters. Sourced by dev.
# What a language has to bring is one file, scripts/client_LANGUAGE.sh, with functions LANGUAGE_setup,
# LANGUAGE_lint, LANGUAGE_format, LANGUAGE_test and, where stubs are committed, LANGUAGE_generate.
# shellcheck shell=bash

client_languages=()
for script in scripts/client_*.sh; do
  # shellcheck source=/dev/null
  source "$script"
  script=${script#scripts/client_}
  client_languages+=("${script%.sh}")
done

# Runs "$@" with IDEMPOTENCY_SCENARIO_HOST set to the address of a scenario host that lives as long. Which
# scenarios passed goes to build/scenarios.json.
with_scenario_host() {
  local lines=build/scenario-host.out status=0 line='' host input
  export IDEMPOTENCYD=${IDEMPOTENCYD:-$root/build/dev/server/idempotencyd}
  scenario_host_build || return 1
  rm -f "$lines"
  mkfifo "$lines"
  # The host ends with its input, so also when ./dev is killed.
  exec {input}> >(exec build/scenario-host/scenario-host --idempotencyd "$IDEMPOTENCYD" \
    --scenarios client/scenarios --results build/scenarios.json --stdin-ends >"$lines")
  host=$!
  IFS= read -r line <"$lines" || true
  rm -f "$lines"
  IDEMPOTENCY_SCENARIO_HOST=$(sed -n 's/.*"address" *: *"\([^"]*\)".*/\1/p' <<<"$line")
  if [[ -n $IDEMPOTENCY_SCENARIO_HOST ]]; then
    export IDEMPOTENCY_SCENARIO_HOST
    "$@" || status=$?
    unset IDEMPOTENCY_SCENARIO_HOST
  else
    say "the scenario host did not start"
    status=1
  fi
  exec {input}>&-
  wait "$host" || true
  return "$status"
}

# Tests the clients of the named languages and adds to the counts of run_tests, whose variables it uses.
test_languages() {
  local language output
  mkdir -p build/clients
  for language in "$@"; do
    say "client: $language"
    output=build/clients/$language.out
    if ! "${language}_setup" >&2; then
      failures+=("client $language: what it needs could not be installed")
      continue
    fi
    "${language}_test" 2>&1 | tee "$output" || true
    count_closing_line "client $language" "$output"
  done
}

# Adds the `N passed, N failed, N skipped` that ends file $2 to the counts of run_tests.
count_closing_line() {
  local line
  # Some tools leave the codes of colours on the line.
  line=$(sed $'s/\033\\[[0-9;]*m//g' "$2" | grep -E '^[0-9]+ passed, [0-9]+ failed' | tail -n 1 || true)
  if [[ ! $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)? ]]; then
    failures+=("$1: it ended without a result")
    return
  fi
  passed=$((passed + BASH_REMATCH[1]))
  skipped=$((skipped + ${BASH_REMATCH[4]:-0}))
  if [[ ${BASH_REMATCH[2]} -ne 0 ]]; then
    failures+=("$1: ${BASH_REMATCH[2]} failed")
  elif [[ ${BASH_REMATCH[1]} -eq 0 ]]; then
    failures+=("$1: no test was run")
  fi
}

# Tests clients, of all languages if none is named, and compares the table in client/README.md with
# what passed. Uses the variables of run_tests.
test_clients() {
  local languages=("$@")
  [[ $# -gt 0 ]] || languages=("${client_languages[@]}")
  rm -f build/scenarios.json
  if ! with_scenario_host test_languages "${languages[@]}"; then
    failures+=("clients: the scenario host")
  elif [[ $# -eq 0 ]] && ! scenario_table --check; then
    failures+=("clients: the table in client/README.md is not what passed; ./dev scenarios table writes it")
  fi
}

lint_clients() {
  local language status=0
  for language in "${client_languages[@]}"; do
    if ! "${language}_setup" >&2; then
      echo "$language: what it needs could not be installed"
      status=1
      continue
    fi
    "${language}_lint" || status=1
  done
  return "$status"
}

format_clients() {
  local language
  for language in "${client_languages[@]}"; do
    if ! "${language}_setup" >&2 || ! "${language}_format"; then
      die "the $language client could not be formatted"
    fi
  done
}

# Rewrites the stubs that are committed, so that users need no protoc.
generate_stubs() {
  local language
  for language in go python typescript; do
    [[ " ${client_languages[*]} " == *" $language "* ]] || continue
    if ! "${language}_setup" >&2 || ! "${language}_generate"; then
      die "the $language stubs could not be made"
    fi
  done
}
