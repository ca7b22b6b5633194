# ./dev scenarios: the host of client/scenarios, for test runners of clients. Sourced by dev.
# shellcheck shell=bash

# Builds the harness's command $1 into build/scenario-host. A build without changes takes a second.
harness_build() {
  local go
  go=$(find_go) || return 1
  mkdir -p build/scenario-host
  (cd tests/harness && CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS='-mod=readonly -buildvcs=false' \
    "$go" build -trimpath -o ../../build/scenario-host/ "./cmd/$1") >&2
}

scenario_host_build() { harness_build scenario-host; }

# Writes the table in client/README.md from build/scenarios.json; --check: compares it instead.
scenario_table() {
  harness_build scenario-table && build/scenario-host/scenario-table "$@"
}

# Prints the path of an idempotencyd to serve the scenarios with: the one that IDEMPOTENCYD names, else
# the release build's, which is built if there is none.
scenario_server() {
  local server=${IDEMPOTENCYD:-build/release/server/idempotencyd}
  if [[ ! -x $server ]]; then
    [[ -z ${IDEMPOTENCYD:-} ]] || die "IDEMPOTENCYD: there is no program $server"
    build_preset release >&2 || return 1
  fi
  printf '%s\n' "$server"
}

# scenarios serve [ARG…]: runs the host until it is told to end. Its first line has the address.
# scenarios table: writes the table of what passed into client/README.md.
scenarios() {
  local command=${1:-} server
  [[ $# -eq 0 ]] || shift
  need_packages "${build_packages[@]}"
  case $command in
    serve)
      server=$(scenario_server) || die "the service could not be built"
      scenario_host_build || die "the scenario host could not be built"
      exec build/scenario-host/scenario-host --idempotencyd="$server" "$@"
      ;;
    table) scenario_table ;;
    *) die "scenarios: there are 'scenarios serve' and 'scenarios table'" ;;
  esac
}
