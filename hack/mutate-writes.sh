#!/usr/bin/env bash
# Checks that a test enforces the write budget: adds one event to each creation and upgrade, and expects
# TestWriteBudget to fail. The working tree does not change, because the change is a build overlay.
# Requires KUBEBUILDER_ASSETS, and takes about ten minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# Record an event for the start of each rollout, even for rollouts without waits.
file=controllers/microservice/events.go
sed 's/return w\.waits()$/return true/' "$file" >"$tmp/events.go"
if cmp -s "$file" "$tmp/events.go"; then
	echo "mutate-writes: $file no longer contains \"return w.waits()\": adapt this script" >&2
	exit 2
fi
printf '{"Replace": {"%s": "%s"}}' "$PWD/$file" "$tmp/events.go" >"$tmp/overlay.json"

if go test -overlay="$tmp/overlay.json" ./cmd/heighliner -count=1 -run 'TestWriteBudget/without_pauses' >"$tmp/log" 2>&1; then
	echo "mutate-writes: TestWriteBudget passes with one more event for each create and upgrade" >&2
	exit 1
fi
if ! grep 'writes per service, more than' "$tmp/log"; then
	cat "$tmp/log" >&2
	echo "mutate-writes: TestWriteBudget failed for another reason" >&2
	exit 2
fi
