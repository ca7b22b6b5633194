# ./dev chaos: breaks a running service on purpose and judges what its callers were told (docs/guarantees.md). Sourced by dev.
# shellcheck shell=bash

# Builds build/scenario-host/chaos, as scripts/scenarios.sh builds the harness's other commands.
chaos_build() { harness_build chaos; }

# Tests the program that IDEMPOTENCYD names, else the release build's, which is built first. Arguments go to the command.
chaos() {
  local server=${IDEMPOTENCYD:-}
  need_packages "${build_packages[@]}" iproute2
  chaos_build || die "the harness could not be built"
  case " $* " in
    *' list '* | *=list' '* | *' -h '* | *' --help '*) exec build/scenario-host/chaos "$@" ;;
  esac
  if [[ -z $server && " $*" == *" --planted"* ]]; then
    # The service with faults of one's choice: tests/planted.
    if ! cmake --preset release -DIDEMPOTENCY_PLANTED=ON >/dev/null ||
      ! cmake --build --preset release --parallel "$(nproc)" --target idempotencyd_planted >&2; then
      die "the service with planted faults could not be built"
    fi
    server=build/release/tests/planted/idempotencyd_planted
  elif [[ -z $server ]]; then
    build_preset release || die "the service could not be built"
    server=build/release/server/idempotencyd
  fi
  [[ -x $server ]] || die "IDEMPOTENCYD: there is no program $server"
  exec build/scenario-host/chaos --idempotencyd="$(realpath "$server")" "$@"
}

# The cut of every ./dev test, against the build that is there by then, and three planted faults: under three minutes. Its last
# line says how many passed. That build's memory is not judged: AddressSanitizer keeps for a while what was freed.
chaos_test() {
  local server=${IDEMPOTENCYD:-build/dev/server/idempotencyd} planted=$root/build/dev/tests/planted/idempotencyd_planted
  local arguments=(--cut --parallel 2 --max-memory-mib 0 --keep build/chaos-failed)
  # For network namespaces, which only root may make.
  if [[ $(id -u) -eq 0 ]]; then need_packages iproute2; fi
  chaos_build || return 1
  if [[ -x $planted ]]; then arguments+=(--planted-server="$planted"); fi
  "${without_aslr[@]}" build/scenario-host/chaos --idempotencyd="$(realpath "$server")" "${arguments[@]}"
}
