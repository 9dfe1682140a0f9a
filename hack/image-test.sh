#!/usr/bin/env bash
# Builds the Dockerfile with buildah, without a daemon, and checks the image:
# its user, entry point, and certificates, and whether its program runs.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v buildah >/dev/null || { apt-get update -q && apt-get install -qy --no-install-recommends buildah; }
work=$(mktemp -d)
store=(--storage-driver vfs --root "$work/root" --runroot "$work/run")
trap 'buildah "${store[@]}" rm --all >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

buildah "${store[@]}" build --isolation chroot -t heighliner:test . >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
check() { # NAME WANTED FOUND
	[[ "$2" == "$3" ]] || { echo "image-test: $1 is $3, want $2" >&2; exit 1; }
	echo "ok   $1: $3"
}
check user 65532:65532 "$(buildah "${store[@]}" inspect --type image --format '{{.OCIv1.Config.User}}' heighliner:test)"
check entrypoint '[/heighliner]' "$(buildah "${store[@]}" inspect --type image --format '{{.OCIv1.Config.Entrypoint}}' heighliner:test)"
container=$(buildah "${store[@]}" from heighliner:test)
root=$(buildah "${store[@]}" mount "$container")
[[ -s "$root/etc/ssl/certs/ca-certificates.crt" ]] || { echo "image-test: the image has no certificates" >&2; exit 1; }
echo "ok   certificates: $(grep -c BEGIN "$root/etc/ssl/certs/ca-certificates.crt")"
echo "ok   runs: $(chroot "$root" /heighliner --version)"
