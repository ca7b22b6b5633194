# Installs what a ./dev command needs and this machine lacks. Sourced by dev.
# shellcheck shell=bash

build_packages=(
  ca-certificates git g++ cmake ninja-build pkg-config ccache
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev
  golang-github-gogo-googleapis-dev # google/rpc/*.proto
  grpc-proto                        # grpc/health/v1/health.proto
  libabsl-dev libpq-dev libssl-dev libcli11-dev libtomlplusplus-dev libspdlog-dev nlohmann-json3-dev
  prometheus-cpp-dev libcpp-httplib-dev
  libgtest-dev libgmock-dev
  postgresql-common postgresql-15
  pgbouncer # for tests only
)
lint_packages=(clang-14 clang-tidy-14 clang-format-14 shellcheck)

# Prints those of the named Debian packages that are not installed.
missing_packages() {
  local installed package
  installed=" $(dpkg-query -W -f '${db:Status-Status}/${Package} ' "$@" 2>/dev/null || true)"
  for package in "$@"; do
    [[ $installed == *" installed/$package "* ]] || printf '%s\n' "$package"
  done
}

as_root() {
  if [[ $(id -u) -eq 0 ]]; then "$@"; else sudo "$@"; fi
}

apt_install() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 \
    install -qq -y --no-install-recommends "$@" </dev/null >&2
}

# Installs the named Debian packages, unless all of them are there already.
need_packages() {
  local missing
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "this is no Debian system; these packages are taken to be installed: $*"
    return
  fi
  mapfile -t missing < <(missing_packages "$@")
  [[ ${#missing[@]} -gt 0 ]] || return 0
  if [[ $(id -u) -ne 0 ]] && ! command -v sudo >/dev/null; then
    die "neither root nor sudo here; ask an administrator for: apt-get install ${missing[*]}"
  fi
  say "installing ${missing[*]}"
  as_root apt-get -o DPkg::Lock::Timeout=300 update -qq </dev/null >&2 ||
    say "apt-get update failed; going on with the package lists that are there"
  if [[ " ${missing[*]} " == *" postgresql-15 "* ]]; then
    forbid_main_cluster
  fi
  apt_install "${missing[@]}" || die "apt-get could not install ${missing[*]}"
  if [[ " ${missing[*]} " == *" pgbouncer "* ]]; then
    # Debian's package starts one on port 6432; ours are private ones of the tests.
    as_root systemctl disable --now pgbouncer </dev/null >/dev/null 2>&1 || true
  fi
}

# Debian's server package otherwise creates a cluster named main and starts it on port 5432. Ours
# are private ones, made by `idempotencyd dev` and by the tests on free ports.
forbid_main_cluster() {
  apt_install postgresql-common || die "apt-get could not install postgresql-common"
  as_root mkdir -p /etc/postgresql-common/createcluster.d
  printf '%s\n' '# Written by ./dev of idempotencyd, which starts private servers only.' \
    'create_main_cluster = false' |
    as_root tee /etc/postgresql-common/createcluster.d/idempotencyd.conf >/dev/null
}

# Whether .tools/$1.stamp was written for the present content of the files that follow.
is_current() {
  [[ -f .tools/$1.stamp && $(cat "${@:2}" | sha256sum) == "$(<".tools/$1.stamp")" ]]
}

mark_current() {
  cat "${@:2}" | sha256sum >".tools/$1.stamp"
}

# Whether the Go named $1 can build every Go module of this project.
is_go_new_enough() {
  local have need
  have=$(GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null) || return 1
  need=$(git ls-files --cached --others --exclude-standard -- '*go.mod' | xargs -r cat |
    sed -n 's/^go //p' | sort --version-sort | tail -n 1)
  printf '%s\n' "$need" "${have#go}" | sort --version-sort --check=silent
}

# Prints the path of a Go that can build the project's modules, installing one where needed.
find_go() {
  if is_go_new_enough go; then
    command -v go
    return
  fi
  if ! is_current go tools/requirements.txt; then
    need_packages python3-venv
    say "installing a Go toolchain under .tools"
    rm -rf .tools/go-venv
    # Debian's own Python: python3-venv belongs to it, whatever other python3 comes first in PATH.
    /usr/bin/python3 -m venv .tools/go-venv >&2 &&
      .tools/go-venv/bin/pip install --quiet --disable-pip-version-check --require-hashes \
        -r tools/requirements.txt >&2 || return 1
    mark_current go tools/requirements.txt
  fi
  printf '%s\n' "$root/.tools/go-venv/bin/go"
}

# Sees to it that there is a command grpcurl. Any version serves, so the machine's own is taken.
need_grpcurl() {
  local go
  if [[ -x .tools/bin/grpcurl ]] && is_current grpcurl tools/go.mod tools/go.sum; then return 0; fi
  rm -f .tools/bin/grpcurl
  hash -r
  if command -v grpcurl >/dev/null; then return 0; fi
  mkdir -p .tools/bin
  go=$(find_go) || return 1
  say "building grpcurl (once, about a minute)"
  (cd tools && CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS='-mod=readonly -buildvcs=false' \
    "$go" build -trimpath -o ../.tools/bin/grpcurl github.com/fullstorydev/grpcurl/cmd/grpcurl) >&2 ||
    return 1
  mark_current grpcurl tools/go.mod tools/go.sum
}

# Sees to it that `buf` is the pinned version: another one formats and lints by other rules.
need_buf() {
  local pinned
  pinned=$(sed -n 's/.*"@bufbuild\/buf": "\(.*\)".*/\1/p' tools/package.json)
  if [[ $(buf --version 2>/dev/null) == "$pinned" ]]; then return 0; fi
  if ! command -v npm >/dev/null; then need_packages nodejs npm; fi
  say "installing buf $pinned under .tools"
  rm -rf .tools/npm
  mkdir -p .tools/bin .tools/npm
  cp tools/package.json tools/package-lock.json .tools/npm/
  # No install scripts: the binary comes in a package of its own, the script only replaces the
  # launcher by it.
  npm ci --prefix .tools/npm --ignore-scripts --no-audit --no-fund --loglevel=error >&2 || return 1
  ln -sfn ../npm/node_modules/.bin/buf .tools/bin/buf
  hash -r
  [[ $(buf --version 2>/dev/null) == "$pinned" ]]
}
