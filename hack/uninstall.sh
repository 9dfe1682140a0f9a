#!/usr/bin/env bash
# Removes Heighliner and all its objects from the cluster in the kubeconfig, in an order
# in which no deletion waits indefinitely. It first deletes the objects, while the manager
# can apply their deletionPolicy and end its reports on GitHub, and removes finalizers
# that the manager does not remove in time. Then it waits for the deletion of the releases,
# and removes the manager.
# Usage: hack/uninstall.sh [KUSTOMIZATION], which defaults to config/default.
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
deadline=$((SECONDS + seconds))
for kind in "${kinds[@]}"; do
  if ! kubectl get customresourcedefinition "$kind" >/dev/null 2>&1; then continue; fi
  while [ -n "$(list "$kind")" ] && [ "$SECONDS" -lt "$deadline" ]; do
    echo "waiting for $(list "$kind" | wc -l) $kind to be finalized"
    sleep 2
  done
  list "$kind" | while read -r namespace name; do
    echo "removing the finalizer of $kind $namespace/$name, which remained for ${seconds}s" >&2
    kubectl patch "$kind" --namespace "$namespace" "$name" --type merge --patch '{"metadata":{"finalizers":null}}'
  done
done
# The garbage collector deletes the releases. While the manager is running, CronJobs that follow them return to their own
# configuration.
if kubectl get customresourcedefinition versionedmicroservices.hlnr.io >/dev/null 2>&1; then
  deadline=$((SECONDS + seconds))
  while [ -n "$(list versionedmicroservices.hlnr.io)" ] && [ "$SECONDS" -lt "$deadline" ]; do
    echo "waiting for $(list versionedmicroservices.hlnr.io | wc -l) versionedmicroservices.hlnr.io to be deleted"
    sleep 2
  done
fi
kubectl delete --ignore-not-found --kustomize "$kustomization"
# Remove the permissions that namespaces granted with config/components/read-secrets and config/components/secrets.
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
