# ./dev lint and ./dev format. Sourced by dev.
# shellcheck shell=bash

# Prints the files of the work tree that git tracks or would track and that match the patterns.
our_files() {
  local file
  git ls-files --cached --others --exclude-standard -- "$@" | while IFS= read -r file; do
    # A file deleted but not yet committed is still listed. Symbolic links are checked where they
    # point to.
    if [[ -f $file && ! -L $file ]]; then printf '%s\n' "$file"; fi
  done
}

cxx_files() { our_files '*.h' '*.cc'; }

# What other programs write: it is neither formatted nor measured here.
written_by_programs=(':!*package-lock.json' ':!*go.sum' ':!*requirements*.txt' ':!*.pb.go' ':!*_pb2*.py*'
  ':!client/typescript/src/gen/*' ':!LICENSE')

# Each lint_… prints its findings and returns non-zero when there are any.

lint_format() {
  cxx_files | xargs -r clang-format-14 --dry-run -Werror
}

lint_proto() {
  local status=0
  need_buf || {
    echo "buf could not be installed"
    return 1
  }
  local folder
  for folder in proto client/cpp/proto; do
    buf lint "$folder" || status=1
    buf format --diff --exit-code "$folder" || status=1
  done
  return "$status"
}

lint_shell() {
  # Scripts that are sourced are checked as part of the one that sources them.
  our_files | xargs -r -d '\n' awk 'FNR == 1 { if (/^#!.*bash$/) print FILENAME; nextfile }' |
    xargs -r shellcheck --external-sources --check-sourced
}

# The layers of docs/architecture.md: no layer includes one above it, and what a layer must not
# know it does not include either. Each line: a folder, and what its #includes must not match.
lint_layers() {
  local status=0 folder forbidden files
  while read -r folder forbidden; do
    [[ -d $folder ]] || continue
    mapfile -t files < <(our_files "$folder/*.h" "$folder/*.cc")
    if grep -nE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]($forbidden)" "${files[@]}" /dev/null; then
      echo "$folder must not include what matches: $forbidden"
      status=1
    fi
  done <<'TXT'
server/base grpc|libpq-fe\.h|proto/|server/(record|store|engine|auth|rpc|ops|app)/
server/record grpc|libpq-fe\.h|proto/|idempotency/v1/|server/(store|engine|auth|rpc|ops|app)/
server/store grpc|proto/|idempotency/v1/|server/(engine|auth|rpc|ops|app)/
server/engine grpc|libpq-fe\.h|proto/|idempotency/v1/|server/store/postgres/|server/(auth|rpc|ops|app)/
server/auth libpq-fe\.h|server/(store|engine|rpc|ops|app)/
server/rpc libpq-fe\.h|server/store/postgres/|server/app/
server/ops grpc|libpq-fe\.h|proto/|idempotency/v1/|server/(record|store|engine|auth|rpc|app)/
client/cpp libpq-fe\.h|absl/|openssl/|server/|tests/
TXT
  return "$status"
}

lint_harness() { harness_lint; }

lint_size() {
  our_files "${written_by_programs[@]}" | xargs -r -d '\n' wc -l |
    awk '$2 != "total" && $1 > 600 { print $2 ": " $1 " lines, the most is 600"; bad = 1 } END { exit bad }'
}

# The brackets keep this file from matching its own pattern.
lint_markers() {
  ! our_files "${written_by_programs[@]}" |
    xargs -r -d '\n' grep -InE '\b(TO[D]O|FIX[M]E|X[X]X|HA[C]K)\b'
}

# clang-tidy on every C++ source, compiled by clang so that the thread annotations count too; see
# scripts/tidy.sh. A source that no target compiles is a finding: nothing would check it.
lint_tidy() {
  local status=0 files sources missing
  # No launcher: clang-tidy would take the compiler for an input file.
  if ! cmake -S . -B build/lint -G Ninja --log-level=WARNING -DCMAKE_BUILD_TYPE=Debug \
    -DCMAKE_CXX_COMPILER=clang++-14 -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DCCACHE= \
    -DIDEMPOTENCY_BENCH=ON >/dev/null; then
    echo "CMake could not configure build/lint"
    return 1
  fi
  # Headers made from protos and SQL files must be there before anything can be parsed.
  if ! ninja -C build/lint -t targets all | sed -nE 's/^(.*\.(h|cc|inc)): CUSTOM_COMMAND$/\1/p' |
    xargs -r ninja -C build/lint --quiet >&2; then
    echo "the generated sources could not be made"
    return 1
  fi
  mapfile -t files < <(sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' build/lint/compile_commands.json |
    grep -vF "$root/build/" | sort -u)
  mapfile -t sources < <(our_files 'client/cpp/*.cc' 'server/*.cc' 'tests/*.cc')
  missing=$(comm -13 <(printf '%s\n' "${files[@]#"$root/"}") <(printf '%s\n' "${sources[@]}" | sort -u))
  if [[ -n $missing ]]; then
    printf '%s\n' 'compiled by no target:' "$missing"
    status=1
  fi
  TIDY_SETTINGS=$({ clang-tidy-14 --version && cat .clang-tidy scripts/tidy.sh; } | sha256sum)
  export TIDY_SETTINGS
  printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" scripts/tidy.sh || status=1
  return "$status"
}

lint() {
  local name failed=()
  need_packages "${build_packages[@]}" "${lint_packages[@]}"
  for name in format layers size markers shell proto harness clients tidy; do
    say "lint: $name"
    "lint_$name" || failed+=("$name")
  done
  [[ ${#failed[@]} -eq 0 ]] || die "lint found something in: ${failed[*]}"
  say "lint: clean"
}

format() {
  need_packages "${lint_packages[@]}"
  cxx_files | xargs -r clang-format-14 -i
  need_buf || die "buf could not be installed"
  buf format --write proto
  buf format --write client/cpp/proto
  format_clients
}
