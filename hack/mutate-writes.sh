#!/usr/bin/env bash
# Shows that the budget of writes is held by a test: adds one write to each upgrade, and expects
# TestWriteBudget to fail for it. The work tree stays as it is: the change is an overlay of the build.
# Needs KUBEBUILDER_ASSETS, and about ten minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# An event for the start of each rollout, also of those that wait for nothing.
file=controllers/microservice/events.go
sed 's/return w\.waits()$/return true/' "$file" >"$tmp/events.go"
if cmp -s "$file" "$tmp/events.go"; then
	echo "mutate-writes: $file has no \"return w.waits()\" any more: adapt this script" >&2
	exit 2
fi
printf '{"Replace": {"%s": "%s"}}' "$PWD/$file" "$tmp/events.go" >"$tmp/overlay.json"

if go test -overlay="$tmp/overlay.json" ./cmd/heighliner -count=1 -run 'TestWriteBudget/without_pauses' >"$tmp/log" 2>&1; then
	echo "mutate-writes: TestWriteBudget passes with one more event for each create and upgrade" >&2
	exit 1
fi
if ! grep 'writes for a service, more than' "$tmp/log"; then
	cat "$tmp/log" >&2
	echo "mutate-writes: TestWriteBudget failed for another cause" >&2
	exit 2
fi
