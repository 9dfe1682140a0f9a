#!/usr/bin/env bash
# Builds a release's binaries from the commit that is checked out, and assembles the files of the release in
# dist/VERSION. A second run from the same commit with the same version of Go produces the same bytes.
# Usage: hack/release/build.sh VERSION IMAGE "OS/ARCH ...", with the platforms for the manager and hlnr.
set -euo pipefail
cd "$(dirname "$0")/../.."

version=${1:-} image=${2:-} platforms=${3:-linux/amd64 linux/arm64}
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+ ]] || { echo "release: VERSION=$version must be a semantic version: make release VERSION=v0.2.0 IMG=registry.example.com/heighliner" >&2; exit 1; }
[ -n "$image" ] || { echo "release: IMG is missing: set it to the repository to which you push the image, such as registry.example.com/heighliner" >&2; exit 1; }
[ -z "$(git status --porcelain)" ] || { echo "release: the working tree has changes: commit them, so that the provenance is correct" >&2; exit 1; }
[ ! -e "dist/$version" ] || { echo "release: dist/$version exists: remove it first" >&2; exit 1; }

mkdir -p .cache dist
binaries=$(mktemp -d .cache/release.XXXXXX)
trap 'rm -rf "$binaries"' EXIT
cp "${CA_CERTIFICATES:-/etc/ssl/certs/ca-certificates.crt}" "$binaries/ca-certificates.crt"
for platform in $platforms; do
  for name in heighliner hlnr; do
    echo "building $name for $platform"
    CGO_ENABLED=0 GOFLAGS= GOOS=${platform%/*} GOARCH=${platform#*/} go build -trimpath -buildvcs=false -ldflags "-s -w -buildid= -X main.version=$version" \
      -o "$binaries/$name-${platform%/*}-${platform#*/}" "./cmd/$name"
  done
done
go run ./hack/release -version "$version" -image "$image" -binaries "$binaries" -out "dist/$version" \
  -commit "$(git rev-parse HEAD)" -epoch "$(git log -1 --format=%ct)" ${BASE_URL:+-base-url "$BASE_URL"}
