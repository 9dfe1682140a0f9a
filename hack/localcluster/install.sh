#!/usr/bin/env bash
# Installs bin/heighliner into the local cluster as a user would: with an image in a
# registry, and a kustomize overlay on config/default that sets the image.
set -euo pipefail
cd "$(dirname "$0")/../.."

cluster=bin/localcluster
kubectl="$($cluster assets)/kubectl"
KUBECONFIG="$($cluster kubeconfig)"
export KUBECONFIG

tag="$(sha256sum bin/heighliner | cut -c1-12)"
image=10.250.0.1:5000/heighliner
echo "installing heighliner $tag"
$cluster image push --binary bin/heighliner --image "$image:$tag" --user 65532 --ca-certs >/dev/null

overlay=.cache/local
mkdir -p "$overlay"
cat > "$overlay/kustomization.yaml" <<YAML
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- ../../config/default
images:
- name: heighliner/heighliner
  newName: $image
  newTag: "$tag"
YAML
# Apply the CRDs first, because the API server needs a moment to serve their kinds.
$kubectl apply -k config/crd >/dev/null
$kubectl wait --for=condition=Established --timeout=60s -f config/crd/ >/dev/null 2>&1 || $kubectl wait --for=condition=Established --timeout=60s crd -l '!nothing' >/dev/null
$kubectl apply -k "$overlay" >/dev/null
$kubectl -n heighliner-system rollout status deployment/heighliner --timeout=120s
