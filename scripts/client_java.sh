# The Java client's part of ./dev. Sourced by dev; the helpers are those of scripts/install.sh.
# shellcheck shell=bash

# What decides which artifacts Maven needs.
java_inputs=(client/java/pom.xml client/java/idempotency-client/pom.xml client/java/example/pom.xml)

# Prints the major version of the Java whose home is $1, or nothing.
java_major() {
  sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$1/release" 2>/dev/null
}

# Prints the home of a JDK 17, the oldest that the client runs on and the one that it is built with.
find_jdk17() {
  local home
  for home in "${JAVA_HOME:-}" /usr/lib/jvm/*; do
    if [[ -x $home/bin/javac && $(java_major "$home") == 17 ]]; then
      printf '%s\n' "$home"
      return
    fi
  done
  return 1
}

# Prints the home of the newest Java of this machine, or nothing if that is no newer than 17.
find_newest_java() {
  local home major newest=17 found=''
  for home in /usr/lib/jvm/*; do
    major=$(java_major "$home")
    if [[ -x $home/bin/java && -n $major && $major -gt $newest ]]; then
      newest=$major
      found=$home
    fi
  done
  printf '%s' "$found"
}

# Maven in client/java, with an artifact store of its own.
java_maven() {
  local jdk
  jdk=$(find_jdk17) || return 1
  (cd client/java && JAVA_HOME=$jdk mvn -Dmaven.repo.local="$root/.tools/m2" "$@")
}

java_setup() {
  local packages=()
  command -v mvn >/dev/null || packages+=(maven)
  find_jdk17 >/dev/null || packages+=(openjdk-17-jdk-headless)
  if [[ ${#packages[@]} -gt 0 ]]; then need_packages "${packages[@]}"; fi
  if is_current java "${java_inputs[@]}"; then return 0; fi
  mkdir -p .tools
  # Done once each for what they download; all later calls are offline.
  say "downloading what the Java client is built with"
  java_maven -q test -Dtest=KeysTest -Dsurefire.failIfNoSpecifiedTests=false >&2 &&
    java_maven -q -Plint test-compile spotless:check javadoc:javadoc >&2 &&
    java_maven -q compile exec:java >&2 || return 1
  mark_current java "${java_inputs[@]}"
}

java_lint() {
  java_maven -o -q -Plint test-compile spotless:check javadoc:javadoc
}

java_format() {
  java_maven -o -q spotless:apply
}

# Adds the counts of Surefire's last line in file $1 to passed, failed and skipped of java_test.
count_surefire() {
  local line
  line=$(grep -E 'Tests run: [0-9]+, Failures: [0-9]+, Errors: [0-9]+, Skipped: [0-9]+$' "$1" | tail -n 1)
  if [[ ! $line =~ run:\ ([0-9]+),\ Failures:\ ([0-9]+),\ Errors:\ ([0-9]+),\ Skipped:\ ([0-9]+) ]]; then
    failed=$((failed + 1))
    return
  fi
  failed=$((failed + BASH_REMATCH[2] + BASH_REMATCH[3]))
  skipped=$((skipped + BASH_REMATCH[4]))
  passed=$((passed + BASH_REMATCH[1] - BASH_REMATCH[2] - BASH_REMATCH[3] - BASH_REMATCH[4]))
}

# Runs Maven's "$@" after the first, which names its output, and counts its tests.
run_surefire() {
  local output=build/clients/java-$1.out status=0
  shift
  mkdir -p build/clients
  java_maven -o "$@" >"$output" 2>&1 || status=$?
  grep -E '^\[(ERROR|WARNING)|Tests run' "$output" || true
  count_surefire "$output"
  # A failure that is no test's.
  if [[ $status -ne 0 && $failed -eq 0 ]]; then failed=1; fi
}

# The example pays at the scenario host's service; its exit status says whether the money moved once.
run_java_example() {
  local target
  command -v curl >/dev/null || need_packages curl
  target=$(curl -fsS "$IDEMPOTENCY_SCENARIO_HOST/service" | sed -n 's/.*"target" *: *"\([^"]*\)".*/\1/p')
  if [[ -n $target ]] && java_maven -o -q compile exec:java -Dexample.skip=false -Dexec.args="$target"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    say "the Java example failed"
  fi
}

java_test() {
  local passed=0 failed=0 skipped=0 newest
  run_surefire 17 test
  newest=$(find_newest_java)
  if [[ -n $newest ]]; then
    say "the same on Java $(java_major "$newest")"
    run_surefire "$(java_major "$newest")" -pl idempotency-client surefire:test -Dtest.java="$newest/bin/java"
  fi
  if [[ -n ${IDEMPOTENCY_SCENARIO_HOST:-} ]]; then
    run_java_example
  else
    say "no scenario host: the Java example is skipped"
    skipped=$((skipped + 1))
  fi
  printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  [[ $failed -eq 0 ]]
}
