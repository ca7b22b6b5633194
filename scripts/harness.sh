# tests/harness, the Go module that runs replicas, cuts lines and serves scenarios: its lint and tests.
# Sourced by dev; the helpers are those of scripts/install.sh.
# shellcheck shell=bash

# Sees to it that .tools/bin/staticcheck is the version that tools/go.mod pins.
need_staticcheck() {
  local go
  if [[ -x .tools/bin/staticcheck ]] && is_current staticcheck tools/go.mod tools/go.sum; then return 0; fi
  mkdir -p .tools/bin
  go=$(find_go) || return 1
  say "building staticcheck"
  (cd tools && CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS='-mod=readonly -buildvcs=false' \
    "$go" build -trimpath -o ../.tools/bin/ honnef.co/go/tools/cmd/staticcheck) >&2 || return 1
  mark_current staticcheck tools/go.mod tools/go.sum
}

# Checks the Go module in the folder $1: gofmt, go vet, staticcheck. Prints what they find.
lint_go_module() {
  local go status=0 unformatted
  go=$(find_go) && need_staticcheck || return 1
  unformatted=$(our_files "$1/*.go" | xargs -r -d '\n' "$("$go" env GOROOT)/bin/gofmt" -l)
  if [[ -n $unformatted ]]; then
    printf '%s\n' "$unformatted" 'not as gofmt writes it: the above'
    status=1
  fi
  (
    cd "$1" || exit 1
    export GOTOOLCHAIN=local GOFLAGS=-mod=readonly PATH="${go%/*}:$PATH"
    "$go" vet ./... && "$root/.tools/bin/staticcheck" ./...
  ) || status=1
  return "$status"
}

harness_lint() { lint_go_module tests/harness; }

# Runs the module's tests against the service, each time anew: Go would take an earlier verdict for one of
# the present service. The last line says how many.
harness_test() {
  local go server status=0 events
  go=$(find_go) || return 1
  server=$(scenario_server) || return 1
  server=$(realpath "$server")
  events=$(cd tests/harness && IDEMPOTENCYD=$server GOTOOLCHAIN=local GOFLAGS='-mod=readonly -buildvcs=false' \
    "$go" test -count=1 -v ./... 2>&1) || status=$?
  printf '%s\n' "$events" | grep -E '^(ok|FAIL|---|panic)|\.go:' | grep -vE '^--- PASS' || true
  printf '%d passed, %d failed, %d skipped\n' "$(grep -cE '^ *--- PASS' <<<"$events" || true)" \
    "$(grep -cE '^ *--- FAIL' <<<"$events" || true)" "$(grep -cE '^ *--- SKIP' <<<"$events" || true)"
  return "$status"
}
