# The Python client's part of ./dev. Sourced by dev; the helpers are those of scripts/install.sh.
# shellcheck shell=bash

python_client=client/python
python_stubs=$python_client/src/idempotency_client/_generated

# Makes the virtual environment .tools/python/$1 by the interpreter $2 with what the lock file $3 names.
python_venv() {
  local venv=.tools/python/$1
  if [[ -x $venv/bin/python ]] && is_current "python-$1" "$3"; then return 0; fi
  say "installing $venv"
  rm -rf "$venv"
  "$2" -m venv "$venv" >&2 || return 1
  # Wheels only, so that nothing is built by what is not in the lock.
  "$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --require-hashes \
    -r "$3" >&2 || return 1
  mark_current "python-$1" "$3"
}

# Prints "MINOR PATH" for each Python 3 of this machine that can make virtual environments, oldest
# first: those on PATH, and those of pyenv, wherever it is.
python_interpreters() {
  local candidate pyenv_root
  local -a candidates=(/usr/bin/python3)
  mapfile -t -O 1 candidates < <(compgen -c python3. | grep -E '^python3\.[0-9]+$' | sort -u)
  if pyenv_root=$(pyenv root 2>/dev/null); then
    candidates+=("$pyenv_root"/versions/*/bin/python3)
  fi
  for candidate in "${candidates[@]}"; do
    "$candidate" -c 'import ensurepip, sys, venv
if sys.version_info[0] == 3 and sys.prefix == sys.base_prefix:
    print(sys.version_info[1], sys.executable)' 2>/dev/null || true
  done | sort -n -u -k 1,1
}

# The least minor version in pyproject.toml.
python_least() {
  sed -n 's/^requires-python = ">=3\.\([0-9]*\)"$/\1/p' $python_client/pyproject.toml
}

# Prints "MINOR PATH LOCK" for both ends of the range that are there and are not Debian's own Python.
python_ends() {
  local minor path least own
  local newest='' newest_path=''
  least=$(python_least)
  own=$(/usr/bin/python3 -c 'import sys; print(sys.version_info[1])')
  while read -r minor path; do
    if ((minor == least)); then printf '%s %s oldest\n' "$minor" "$path"; fi
    if ((minor > own)); then newest=$minor newest_path=$path; fi
  done < <(python_interpreters)
  if [[ -n $newest ]]; then printf '%s %s newest\n' "$newest" "$newest_path"; fi
}

# Prints the same of Python 3.12, which alone starts no thread once the main thread has ended.
python_312() {
  local minor path
  while read -r minor path; do
    if ((minor == 12)); then printf '%s %s newest\n' "$minor" "$path"; fi
  done < <(python_interpreters)
}

python_setup() {
  local minor path lock
  need_packages python3 python3-venv
  mkdir -p .tools/python
  # Debian's own Python: python3-venv belongs to it, whatever other python3 comes first in PATH.
  python_venv tools /usr/bin/python3 $python_client/requirements/tools.txt || return 1
  python_venv own /usr/bin/python3 $python_client/requirements/newest.txt || return 1
  while read -r minor path lock; do
    python_venv "$lock-3.$minor" "$path" "$python_client/requirements/$lock.txt" || return 1
  done < <(python_ends; python_312)
}

# Writes the stubs into the directory $1: flat, and importing each other relatively, so that the
# package idempotency.v1 of whoever generates his own does not get in the way.
python_stubs_into() {
  local made file
  made=$(mktemp -d)
  .tools/python/tools/bin/python -m grpc_tools.protoc --proto_path=proto --python_out="$made" \
    --pyi_out="$made" --grpc_python_out="$made" proto/idempotency/v1/*.proto || return 1
  mkdir -p "$1"
  for file in "$made"/idempotency/v1/*; do
    # Files without a service have nothing in their second module.
    case ${file##*/} in error_pb2_grpc.py | record_pb2_grpc.py) continue ;; esac
    sed 's/^from idempotency\.v1 import /from . import /' "$file" >"$1/${file##*/}"
  done
  printf '"""Generated from proto/idempotency/v1; never edited."""\n' >"$1/__init__.py"
  rm -rf "$made"
}

python_generate() {
  python_setup || return 1
  rm -rf $python_stubs
  python_stubs_into $python_stubs
}

python_lint() {
  local status=0 fresh
  local tools=$PWD/.tools/python/tools/bin
  python_setup || return 1
  mkdir -p .cache
  "$tools/ruff" format --cache-dir .cache/ruff --check $python_client || status=1
  "$tools/ruff" check --cache-dir .cache/ruff $python_client || status=1
  (cd $python_client && "$tools/mypy" --cache-dir ../../.cache/mypy src tests example) || status=1
  fresh=$(mktemp -d)
  if ! python_stubs_into "$fresh"; then
    status=1
  elif ! diff -r --exclude=__pycache__ "$fresh" $python_stubs; then
    printf '%s: the stubs are not what ./dev generate makes of the protos\n' $python_stubs
    status=1
  fi
  rm -rf "$fresh"
  return "$status"
}

python_format() {
  python_setup || return 1
  .tools/python/tools/bin/ruff format --cache-dir .cache/ruff $python_client
  .tools/python/tools/bin/ruff check --cache-dir .cache/ruff --fix $python_client
}

# Runs the tests by the environment $1 with pytest's arguments $2…
python_pytest() {
  local name=$1 python=$PWD/.tools/python/$1/bin/python reports=$PWD/build/client_python
  shift
  (cd $python_client && PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest -q -p no:cacheprovider \
    --junitxml="$reports/$name.xml" "$@")
}

# All by Debian's Python; all but the scenarios at both ends of the range, and by Python 3.12 how a
# program ends, where the machine has them.
python_test() {
  local status=0 minor path lock reports=build/client_python
  python_setup || return 1
  rm -rf $reports
  mkdir -p $reports
  # The wheel is built, and type-checked, by the tools, which have the same Python.
  IDEMPOTENCY_PYTHON_TOOLS=$PWD/.tools/python/tools python_pytest own -n 4 --dist worksteal ||
    status=1
  while read -r minor path lock; do
    printf 'Python 3.%s, the %s of its dependencies\n' "$minor" "$lock"
    python_pytest "$lock-3.$minor" --ignore=tests/test_scenarios.py --ignore=tests/test_package.py ||
      status=1
  done < <(python_ends)
  while read -r minor path lock; do
    printf 'Python 3.%s, the tests of how a program ends\n' "$minor"
    python_pytest "$lock-3.$minor" tests/test_ending.py || status=1
  done < <(python_312)
  .tools/python/own/bin/python - $reports/*.xml <<'PY' || status=1
import sys
import xml.etree.ElementTree as ElementTree

total = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
for path in sys.argv[1:]:
    for suite in ElementTree.parse(path).getroot().iter("testsuite"):
        for name in total:
            total[name] += int(suite.get(name, 0))
failed = total["failures"] + total["errors"]
passed = total["tests"] - failed - total["skipped"]
print(f"{passed} passed, {failed} failed, {total['skipped']} skipped")
PY
  return "$status"
}
