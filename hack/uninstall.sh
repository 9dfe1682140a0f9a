#!/usr/bin/env bash
# Removes Heighliner and all of its objects from the cluster of the kubeconfig, in an
# order in which nothing waits forever: the objects first, while the manager can do
# what their deletionPolicy says, and end what it reports at GitHub; a finalizer that
# no one takes off in time is taken off here; then the releases, which the manager waits
# for.
# Usage: hack/uninstall.sh [kustomization], default config/default.
set -euo pipefail

kustomization=${1:-config/default}
kinds=(microservices.hlnr.io networkpolicies.hlnr.io githubrepositories.hlnr.io)
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
    echo "waiting for $(list "$kind" | wc -l) $kind to do what they do at their end"
    sleep 2
  done
  list "$kind" | while read -r namespace name; do
    echo "taking the finalizer off $kind $namespace/$name: nothing did within ${seconds}s" >&2
    kubectl patch "$kind" --namespace "$namespace" "$name" --type merge --patch '{"metadata":{"finalizers":null}}'
  done
done
# The garbage collector deletes the releases. CronJobs that follow them return to their own configuration while the manager runs.
if kubectl get customresourcedefinition versionedmicroservices.hlnr.io >/dev/null 2>&1; then
  deadline=$((SECONDS + seconds))
  while [ -n "$(list versionedmicroservices.hlnr.io)" ] && [ "$SECONDS" -lt "$deadline" ]; do
    echo "waiting for $(list versionedmicroservices.hlnr.io | wc -l) versionedmicroservices.hlnr.io to be deleted"
    sleep 2
  done
fi
kubectl delete --ignore-not-found --kustomize "$kustomization"
# What namespaces granted by config/components/read-secrets and config/components/secrets.
bindings() {
  kubectl get rolebindings --all-namespaces \
    --output "jsonpath={range .items[?(@.roleRef.name==\"$1\")]}{.metadata.namespace} {.metadata.name}{\"\\n\"}{end}"
}
for role in heighliner-read-secrets heighliner-secrets; do
  bindings "$role" | while read -r namespace name; do
    kubectl delete rolebinding --namespace "$namespace" "$name" --ignore-not-found
    kubectl delete role --namespace "$namespace" "$role" --ignore-not-found
  done
done
