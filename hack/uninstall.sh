#!/usr/bin/env bash
# Removes Heighliner and all its objects from the cluster in the kubeconfig, in an order
# in which no deletion waits indefinitely. It first deletes the objects, while the manager
# can apply their deletionPolicy and complete its reports on GitHub, and removes finalizers
# that the manager does not remove in time. Then it waits for the deletion of the releases,
# and removes the manager. A request that fails never counts as "there are no objects".
# Usage: hack/uninstall.sh [KUSTOMIZATION], which defaults to config/default.
set -euo pipefail

kustomization=${1:-config/default}
kinds=(microservices.hlnr.io networkpolicies.hlnr.io githubrepositories.hlnr.io)
seconds=${HLNR_UNINSTALL_SECONDS:-120}

list() { kubectl get "$1" --all-namespaces --output 'jsonpath={range .items[*]}{.metadata.namespace} {.metadata.name}{"\n"}{end}'; }

# exists returns whether an object exists. If the object cannot be read, the script exits.
exists() {
  local found
  found=$(kubectl get "$@" --ignore-not-found --output name) || exit 1
  [ -n "$found" ]
}

# await KIND DEADLINE STATE waits until there are no objects of a kind, or until the deadline. It retries list requests that fail.
await() {
  local left
  while [ "$SECONDS" -lt "$2" ]; do
    if left=$(list "$1"); then
      if [ -z "$left" ]; then return; fi
      echo "waiting for $(wc -l <<<"$left") $1 to be $3"
    fi
    sleep 2
  done
}

for kind in "${kinds[@]}"; do
  if ! exists customresourcedefinition "$kind"; then continue; fi
  echo "deleting all $kind"
  kubectl delete "$kind" --all --all-namespaces --wait=false
done
deadline=$((SECONDS + seconds))
for kind in "${kinds[@]}"; do
  if ! exists customresourcedefinition "$kind"; then continue; fi
  await "$kind" "$deadline" finalized
  list "$kind" | while read -r namespace name; do
    echo "removing the finalizer of $kind $namespace/$name, which remained for ${seconds}s" >&2
    # The patch fails if the manager has finalized the object in the meantime.
    if ! kubectl patch "$kind" --namespace "$namespace" "$name" --type merge --patch '{"metadata":{"finalizers":null}}' &&
      exists "$kind" --namespace "$namespace" "$name"; then exit 1; fi
  done
done
# The garbage collector deletes the releases. While the manager is running, CronJobs that follow them return to their own
# configuration.
if exists customresourcedefinition versionedmicroservices.hlnr.io; then
  await versionedmicroservices.hlnr.io $((SECONDS + seconds)) deleted
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
