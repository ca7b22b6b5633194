#!/usr/bin/env bash
# Runs clang-tidy on one source file. A file that was found clean is not looked at again until the
# file, a header of ours that it includes, its compile command or the settings change.
#
# Usage: scripts/tidy.sh FILE, from the root of the clone; FILE as in build/lint/compile_commands.json.
# TIDY_SETTINGS  any text that stands for the tool's version and settings.
set -euo pipefail

file=$1
name=${file#"$PWD/"}
# What the last clean verdict rests on, as `sha256sum --check` reads it; its first line, a comment
# to sha256sum, stands for command and settings.
stamp=.cache/tidy/$name.sha256

command=$(grep -F -B 1 "\"file\": \"$file\"" build/lint/compile_commands.json)
key="# $(printf '%s' "$command" "${TIDY_SETTINGS:?}" | sha256sum)"
if [[ -f $stamp ]] && [[ $(head -n 1 "$stamp") == "$key" ]] && sha256sum --check --status "$stamp"; then
  exit 0
fi

mkdir -p "$(dirname "$stamp")"
rm -f "$stamp"
included=$(mktemp)
trap 'rm -f "$included"' EXIT
# -H lists every header on standard error, one line each: dots for the depth, a space, the path.
if ! findings=$(clang-tidy-14 -p build/lint --quiet --extra-arg=-H "$file" 2>"$included"); then
  printf '%s\n%s\n' "$findings" "$(grep -vE '^\.+ |warnings? (and [0-9]+ errors? )?generated' "$included")"
  printf '%s: clang-tidy found something\n' "$name"
  exit 1
fi
{
  printf '%s\n' "$key"
  sed -nE 's/^\.+ //p' "$included" | { grep -F "$PWD/" || true; } | sort -u |
    { xargs -r -d '\n' sha256sum; sha256sum "$file"; }
} >"$stamp.new"
mv "$stamp.new" "$stamp"
