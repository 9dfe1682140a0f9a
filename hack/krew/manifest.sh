#!/usr/bin/env bash
# Writes the krew manifest for kubectl-hlnr archives.
#
#   manifest.sh VERSION BASE-URL FOLDER
#
# FOLDER contains archives named kubectl-hlnr-OS-ARCH.tar.gz, each with the binary kubectl-hlnr (or kubectl-hlnr.exe) and
# LICENSE. BASE-URL is the URL below which they are published.
set -euo pipefail
[ $# = 3 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
version=$1 base=$2 folder=$3
sed "s|VERSION|$version|; /^#/d" "$(dirname "$0")/hlnr.yaml"
found=
for archive in "$folder"/kubectl-hlnr-*.tar.gz; do
  [ -e "$archive" ] || continue
  found=1
  name=$(basename "$archive" .tar.gz)
  IFS=- read -r _ _ os arch <<<"$name"
  bin=kubectl-hlnr
  [ "$os" != windows ] || bin=kubectl-hlnr.exe
  cat <<YAML
  - selector:
      matchLabels:
        os: $os
        arch: $arch
    uri: $base/$(basename "$archive")
    sha256: $(sha256sum "$archive" | cut -d' ' -f1)
    bin: $bin
YAML
done
[ -n "$found" ] || { echo "manifest.sh: no kubectl-hlnr-OS-ARCH.tar.gz in $folder" >&2; exit 1; }
