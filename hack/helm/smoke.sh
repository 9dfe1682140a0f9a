#!/usr/bin/env bash
# Installs the chart into the local cluster as a user would, with the images in the cluster's registry, and prints the time from
# "helm install" until the first release serves traffic. Then it runs helm test, upgrades and uninstalls the chart, and checks that
# the application keeps serving. It starts by removing any existing installation with all its objects.
set -euo pipefail
cd "$(dirname "$0")/../.."

cluster=bin/localcluster
PATH="$($cluster assets):$PATH"
KUBECONFIG="$($cluster kubeconfig)"
export PATH KUBECONFIG
limit=${HLNR_SMOKE_SECONDS:-60} # Exits non-zero if the first release takes longer.
registry=10.250.0.1:5000
url=http://1-x.shop.localhost:8000/
kinds=()
for file in config/crd/hlnr.io_*.yaml; do kind=${file#*_}; kinds+=("${kind%.yaml}"); done

helm() { bin/helm --namespace heighliner-system "$@"; }
fail() { echo "helm-smoke: $*" >&2; exit 1; }
served() { curl --silent --fail --max-time 2 --output /dev/null --resolve 1-x.shop.localhost:8000:127.0.0.1 "$url"; }
now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN {printf "%.1f", b - a}'; }

clear_all() {
  kubectl delete namespace shop --ignore-not-found --wait=false >/dev/null
  HLNR_UNINSTALL_SECONDS=30 hack/uninstall.sh >/dev/null 2>&1 || true
  helm uninstall heighliner --ignore-not-found >/dev/null 2>&1 || true
  for kind in "${kinds[@]}"; do kubectl delete customresourcedefinition "$kind.hlnr.io" --ignore-not-found >/dev/null; done
  kubectl delete namespace heighliner-system --ignore-not-found >/dev/null
  kubectl wait --for=delete namespace/shop --timeout=120s >/dev/null
}

tag="$(sha256sum bin/heighliner | cut -c1-12)"
$cluster image push --binary bin/heighliner --image "$registry/heighliner:$tag" --user 65532 --ca-certs >/dev/null
$cluster image push --binary bin/sampleapp --image "$registry/shop:1.0.0" --env VERSION=1.0.0 >/dev/null
echo "removing an existing installation"
clear_all

began=$(now)
helm install heighliner charts/heighliner --create-namespace --set "image.repository=$registry/heighliner" --set "image.tag=$tag" --wait --timeout 2m >/dev/null
installed=$(since "$began")
kubectl apply -k config/samples >/dev/null
until served; do
  [ "$(since "$began" | cut -d. -f1)" -lt 180 ] || { kubectl get imgp,msvc,vsvc,hnp -n shop -o wide >&2; fail "the first release does not serve traffic within 180 s"; }
  sleep 0.2
done
seconds=$(since "$began")
echo "from helm install to a ready manager: $installed s; until the first release serves traffic: $seconds s"

helm test heighliner --timeout 2m >/dev/null || fail "helm test failed"
helm upgrade heighliner charts/heighliner --reuse-values --set replicas=2 --wait --timeout 2m >/dev/null
served || fail "the application does not serve traffic after the upgrade"
helm uninstall heighliner --wait --timeout 2m >/dev/null
sleep 5
served || fail "the application does not serve traffic after the uninstall"
for kind in "${kinds[@]}"; do kubectl get customresourcedefinition "$kind.hlnr.io" >/dev/null; done
[ "$(kubectl get -n shop microservices.hlnr.io -o name)" ] || fail "the uninstall removed the Microservice"
echo "helm test, an upgrade to two replicas, and the uninstall: the application kept serving"
clear_all
awk -v s="$seconds" -v l="$limit" 'BEGIN {exit !(s <= l)}' || fail "the first release took $seconds s, more than $limit s"
