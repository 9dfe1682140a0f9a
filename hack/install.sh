#!/usr/bin/env bash
# Installs Heighliner into the cluster in the kubeconfig, from an image that the cluster's
# nodes can pull. Usage: hack/install.sh registry.example.com/heighliner:v0.1.0
set -euo pipefail
cd "$(dirname "$0")/.."

image=${1:-}
if [ -z "$image" ]; then
  cat >&2 <<'TEXT'
install: IMG is missing. There is no public image: build one, push it to a registry that
your nodes can reach, and set IMG to it (docs/how-to/install.md):
  make build
  docker build -t registry.example.com/heighliner:v0.1.0 .
  docker push registry.example.com/heighliner:v0.1.0
  make install IMG=registry.example.com/heighliner:v0.1.0
TEXT
  exit 1
fi
case $image in
  *@sha256:*) name=${image%@*} field="digest: ${image#*@}" ;;
  *:*)
    name=${image%:*} field="newTag: \"${image##*:}\""
    case ${image##*:} in */*) field= ;; esac ;; # The colon belongs to a port.
  *) field= ;;
esac
if [ -z "$field" ]; then
  echo "install: IMG=$image has no version: add a tag, as in $image:v0.1.0, or a digest" >&2
  exit 1
fi

mkdir -p .cache
overlay=$(mktemp -d .cache/install.XXXXXX)
trap 'rm -rf "$overlay"' EXIT
cat > "$overlay/kustomization.yaml" <<YAML
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- ../../config/default
images:
- name: heighliner/heighliner
  newName: $name
  $field
YAML
kubectl apply -k "$overlay"
kubectl -n heighliner-system rollout status deployment/heighliner --timeout=180s
