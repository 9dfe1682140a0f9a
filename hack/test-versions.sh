#!/usr/bin/env bash
# On versions of Kubernetes other than the local cluster's version, runs the tests that need an API server, and prints
# the versions on which tests failed. Usage: hack/test-versions.sh "1.33 1.34" [PACKAGE...]. LOCALCLUSTER is the path of the program
# that builds control planes.
set -euo pipefail
cd "$(dirname "$0")/.."

versions=$1
shift
if [ $# -eq 0 ]; then
  # Select the packages that import the test API server, except test/docs, whose examples are checked with the cluster's version.
  mapfile -t packages < <(go list -f '{{range .TestImports}}{{println $.ImportPath .}}{{end}}{{range .XTestImports}}{{println $.ImportPath .}}{{end}}' ./... |
    awk '$2 ~ /\/test\/apiserver$/ {print $1}' | sort -u | grep -v '/test/docs$')
  set -- "${packages[@]}" ./test/apiserver
fi
failed=()
for version in $versions; do
  assets=$("$LOCALCLUSTER" assets --kubernetes "$version")
  echo "== Kubernetes $version: $("$assets/kube-apiserver" --version)"
  if ! KUBEBUILDER_ASSETS="$assets" CGO_ENABLED=0 go test -trimpath -count=1 -shuffle=on -vet=off -parallel 4 -timeout 30m "$@"; then
    failed+=("$version")
  fi
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "tests failed on Kubernetes ${failed[*]}" >&2
  exit 1
fi
echo "all tests passed on Kubernetes $versions"
