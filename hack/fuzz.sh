#!/usr/bin/env bash
# fuzz.sh FUZZTIME [REGEXP]: fuzzes each of the repository's targets for FUZZTIME, one after another. With REGEXP, it fuzzes
# only targets whose "folder name" matches. A new input is minimized with twenty attempts. By default, it would be minimized for a
# minute, during which no other input is tried. Failing inputs are stored in testdata/fuzz in the target's folder. The remaining
# targets are fuzzed even if a target fails.
set -euo pipefail
cd "$(dirname "$0")/.."
time=$1 chosen=${2:-}
targets=$(git grep -E --untracked '^func Fuzz[A-Za-z0-9_]*\(' -- '*_test.go' |
	sed -E 's|^(.*)/[^/]*:func (Fuzz[A-Za-z0-9_]*)\(.*|\1 \2|' | sort -u)
[ -z "$chosen" ] || targets=$(grep -E -- "$chosen" <<<"$targets") || { echo "no fuzz target matches $chosen" >&2; exit 2; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT

fuzz() { # FOLDER NAME
	(cd "$1" && go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" -fuzzminimizetime 20x ${FUZZPARALLEL:+-parallel "$FUZZPARALLEL"} .) 2>&1 | tee "$log"
}

# Before Go 1.27, the end of the fuzzing time can be reported as a failure without an input (golang/go#75804).
only_the_time_was_over() {
	grep -q '^    context deadline exceeded$' "$log" && ! grep -qE 'Failing input|^    --- FAIL|panic' "$log"
}

failed=()
while read -r folder name; do
	echo "$folder $name"
	fuzz "$folder" "$name" || { only_the_time_was_over && echo "$folder $name: trying again (golang/go#75804)" && fuzz "$folder" "$name"; } || failed+=("$folder $name")
done <<<"$targets"
[ ${#failed[@]} -eq 0 ] || { printf 'failing input found: %s\n' "${failed[@]}" >&2; exit 1; }
echo "$(wc -l <<<"$targets") targets: no failing input found in $time each"
