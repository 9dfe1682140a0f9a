#!/usr/bin/env bash
# check.sh LINTER: quickly checks a change, in less than two minutes with warm caches. It checks the formatting, runs linters
# on the changed packages, and runs the tests that do not need an API server. BASE is the commit to compare with; it defaults to
# the merge base with main.
set -euo pipefail
cd "$(dirname "$0")/.."
linter=$1
base=${BASE:-$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)}

unformatted=$(git ls-files -co --exclude-standard '*.go' | while read -r f; do [ ! -e "$f" ] || echo "$f"; done | xargs gofmt -l)
[ -z "$unformatted" ] || { echo "run gofmt -w on:" $unformatted >&2; exit 1; }

folders=$({ git diff --name-only --diff-filter=d "$base" -- '*.go'; git ls-files -o --exclude-standard -- '*.go'; } |
	{ grep -vE '(^|/)testdata/|^hack/(boardtest|gitops|helm|localcluster|sampleapp|site)/' || true; } | xargs -r -n1 dirname | sort -u | sed 's|^|./|')
if [ -n "$folders" ]; then
	echo "linting" $folders
	"$linter" run $folders
fi

# Select the packages whose tests do not start an API server, either themselves or through a package that they import. Run their
# tests in short mode; "make test" runs them in full.
starts=$(go list -f '{{.ImportPath}} {{join .Deps " "}}' ./... | grep '/test/apiserver\( \|$\)' | cut -d' ' -f1 | paste -sd'|')
packages=$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}{{end}}' ./... |
	grep -vE "(^| )($starts)( |$)" | cut -d' ' -f1)
go test -short $packages
