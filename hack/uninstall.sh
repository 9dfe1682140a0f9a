#!/usr/bin/env bash
# Removes Heighliner and all of its objects from the cluster of the kubeconfig, in an
# order in which nothing waits for ever: the objects first, while the manager can do
# what their deletionPolicy says; a finalizer that nobody takes off in time is taken
# off here. Usage: hack/uninstall.sh [kustomization], default config/default.
set -euo pipefail

kustomization=${1:-config/default}
kinds=(microservices.hlnr.io networkpolicies.hlnr.io)
seconds=${HLNR_UNINSTALL_SECONDS:-120}

list() { kubectl get "$1" --all-namespaces --output 'jsonpath={range .items[*]}{.metadata.namespace} {.metadata.name}{"\n"}{end}'; }

for kind in "${kinds[@]}"; do
  if ! kubectl get customresourcedefinition "$kind" >/dev/null 2>&1; then continue; fi
  echo "deleting all $kind"
  kubectl delete "$kind" --all --all-namespaces --wait=false
done
for kind in "${kinds[@]}"; do
  if ! kubectl get customresourcedefinition "$kind" >/dev/null 2>&1; then continue; fi
  deadline=$((SECONDS + seconds))
  while [ -n "$(list "$kind")" ] && [ "$SECONDS" -lt "$deadline" ]; do
    echo "waiting for $(list "$kind" | wc -l) $kind to do what their deletionPolicy says"
    sleep 2
  done
  list "$kind" | while read -r namespace name; do
    echo "taking the finalizer off $kind $namespace/$name: nothing did within ${seconds}s" >&2
    kubectl patch "$kind" --namespace "$namespace" "$name" --type merge --patch '{"metadata":{"finalizers":null}}'
  done
done
kubectl delete --ignore-not-found --kustomize "$kustomization"
