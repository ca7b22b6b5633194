# The TypeScript client's part of ./dev. Sourced by dev; the helpers are those of scripts/install.sh.
# shellcheck shell=bash

# Installs the client's dependencies in its own node_modules, and Node at both ends of its range in
# .tools/node. Those are packages of the registry, like all others: nothing else is downloaded.
typescript_setup() {
  local client=client/typescript
  if ! command -v npm >/dev/null; then need_packages nodejs npm; fi
  if [[ ! -d .tools/node/node_modules ]] || ! is_current node tools/node/package-lock.json; then
    say "installing Node at both ends of the TypeScript client's range"
    rm -rf .tools/node
    mkdir -p .tools/node
    cp tools/node/package.json tools/node/package-lock.json .tools/node/
    npm_ci .tools/node || return 1
    mark_current node tools/node/package-lock.json
  fi
  if [[ ! -d $client/node_modules ]] || ! is_current typescript $client/package-lock.json; then
    say "installing the TypeScript client's dependencies"
    npm_ci $client || return 1
    mark_current typescript $client/package-lock.json
  fi
}

# No install scripts: none of the packages needs one.
npm_ci() {
  npm ci --prefix "$1" --ignore-scripts --no-audit --no-fund --loglevel=error >&2
}

# Prints the folder with the `newest` or the `oldest` node, or nothing if there is none for this
# machine's processor.
node_folder() {
  local cpu=x64
  [[ $(uname -m) != aarch64 ]] || cpu=arm64
  if [[ -x .tools/node/node_modules/$1-$cpu/bin/node ]]; then
    # shellcheck disable=SC2154 # dev sets root
    printf '%s\n' "$root/.tools/node/node_modules/$1-$cpu/bin"
  fi
}

# Runs a program of the client's node_modules, in its folder, by the newest Node: eslint and
# protoc-gen-es need a newer one than the client does.
typescript_tool() (
  cd client/typescript && PATH="$(node_folder newest):$PATH" "node_modules/.bin/$1" "${@:2}"
)

# Writes the stubs to the folder $1.
typescript_stubs() {
  need_packages protobuf-compiler
  mkdir -p "$1"
  PATH="$(node_folder newest):$PATH" protoc --proto_path=proto --proto_path=client/cpp/proto \
    --plugin=client/typescript/node_modules/.bin/protoc-gen-es \
    --es_out="$1" --es_opt=target=ts,import_extension=js \
    proto/idempotency/v1/*.proto client/cpp/proto/idempotency/client/v1/status_details.proto
}

# Rewrites the committed stubs in client/typescript/src/gen.
typescript_generate() {
  typescript_setup || return 1
  rm -rf client/typescript/src/gen
  typescript_stubs client/typescript/src/gen
}

typescript_lint() {
  local status=0 fresh
  typescript_setup || return 1
  # The example and the tests are typed by the built package, as its users are.
  typescript_tool tsc -p tsconfig.build.json || return 1
  typescript_tool prettier --check --log-level=warn . || status=1
  typescript_tool eslint . || status=1
  typescript_tool tsc -p tsconfig.json --noEmit || status=1
  fresh=$(mktemp -d)
  if ! typescript_stubs "$fresh" || ! diff -r "$fresh" client/typescript/src/gen; then
    echo "client/typescript/src/gen is not what ./dev generate makes of the protos"
    status=1
  fi
  rm -rf "$fresh"
  return "$status"
}

typescript_format() {
  typescript_setup && typescript_tool prettier --write --log-level=warn .
}

# Runs the tests by the machine's own Node if it is in the range, by the oldest of it and the newest.
typescript_test() {
  local folder own version status=0 passed=0 failed=0 skipped=0
  local -A done_by=()
  typescript_setup || return 1
  rm -rf client/typescript/dist client/typescript/.build
  typescript_tool tsc -p tsconfig.build.json && typescript_tool tsc -p tsconfig.json || return 1
  own=$(dirname "$(command -v node)")
  for folder in "$(node_folder newest)" "$(node_folder oldest)" "$own"; do
    if [[ -z $folder ]] || ! is_in_node_range "$folder/node"; then continue; fi
    version=$("$folder/node" --version)
    if [[ -n ${done_by[$version]:-} ]]; then continue; fi
    done_by[$version]=1
    typescript_test_by "$folder" || status=1
  done
  printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  return "$status"
}

# Whether the Node named $1 is one that package.json allows.
is_in_node_range() {
  local least
  least=$(sed -n 's/.*"node": ">=\(.*\)".*/\1/p' client/typescript/package.json)
  printf '%s\n' "$least" "$("$1" --version | tr -d v)" | sort --version-sort --check=silent
}

# Adds to the caller's passed, failed and skipped.
typescript_test_by() {
  local report status=0
  say "typescript: testing by Node $("$1/node" --version)"
  report=$(cd client/typescript && PATH="$1:$PATH" node --test --test-reporter=tap .build/test/*.test.js 2>&1) ||
    status=$?
  if [[ $status -ne 0 ]]; then printf '%s\n' "$report"; fi
  passed=$((passed + $(tap_count pass "$report")))
  failed=$((failed + $(tap_count fail "$report") + $(tap_count cancelled "$report")))
  skipped=$((skipped + $(tap_count skipped "$report")))
  return "$status"
}

# Prints the number that the TAP report $2 gives for $1.
tap_count() {
  local count
  count=$(sed -n "s/^# $1 \([0-9]*\)\$/\1/p" <<<"$2" | tail -n 1)
  printf '%d\n' "${count:-0}"
}
