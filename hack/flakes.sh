#!/usr/bin/env bash
# flakes.sh RUNS LOAD [PACKAGE...]: runs the tests RUNS times alongside LOAD busy processes, prints the duration of each run, and
# lists each failed test with the number of runs in which it failed. Without packages, it runs the packages of make test, or of
# make race if RACE is set. PLAIN contains the folders that make race omits, and FLAGS the flags for go test.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=$1 load=$2
shift 2
logs=$(mktemp -d "${TMPDIR:-/tmp}/heighliner-flakes-XXXXXX")
busy=()
trap '[ ${#busy[@]} -eq 0 ] || kill "${busy[@]}" 2>/dev/null || true' EXIT
for _ in $(seq "$load"); do
	(while :; do :; done) &
	busy+=($!)
done

# run FOLDER ARGUMENT...: prints the events of a test run.
if [ -n "${RACE:-}" ]; then race=-race; else race='' PLAIN='' && export CGO_ENABLED=0; fi
run() { (cd "$1" && shift && go test $race ${FLAGS:--trimpath -shuffle=on -parallel 4} -count=1 -timeout 60m -json "$@"); }

# failures FILE: prints "package test" for each failed test of a run. For a package that failed without a failed test, for
# example because it does not compile, it prints only the package.
failures() {
	sed -nE 's/^\{.*"Action":"fail","Package":"([^"]*)"(,"Test":"([^"]*)")?.*/\1 \3/p' "$1" |
		awk 'NF > 1 { tests[$1]; print } NF == 1 { alone[$1] } END { for (p in alone) if (!(p in tests)) print p }' | sort -u
}

for i in $(seq "$runs"); do
	log=$logs/$i
	: >"$log"
	ok=passed began=$SECONDS
	if [ $# -gt 0 ]; then
		run . "$@" >>"$log" || ok=failed
	else
		plain=$(for folder in ${PLAIN:-}; do go list "./$folder"; done)
		run . $(go list ./... | grep -vxF -e "${plain:-none}") >>"$log" || ok=failed
		for folder in hack/sampleapp hack/localcluster; do run "$folder" ./... >>"$log" || ok=failed; done
	fi
	[ $ok = passed ] || failures "$log" >"$log.failed"
	echo "run $i of $runs $ok after $(((SECONDS - began) / 60)) min $(((SECONDS - began) % 60)) s"
done
if ! compgen -G "$logs/*.failed" >/dev/null; then
	echo "no test failed in $runs runs"
	rm -r "$logs"
	exit
fi
echo "failed tests, with the number of runs in which they failed (the events are in $logs):" >&2
sort "$logs"/*.failed | uniq -c | sort -rn >&2
exit 1
