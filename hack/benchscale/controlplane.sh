#!/bin/sh
# Builds the control plane for "make bench-scale" with thousands of services, and prints its folder:
#
#	make bench-scale N=10000 ARGS="-assets $(hack/benchscale/controlplane.sh) ..."
#
# The only difference from the default control plane is that kube-apiserver does not update two metrics about the range of Service addresses. To update
# them, kube-apiserver 1.33 to 1.37 lists all IPAddresses of the cluster twice after each allocation, so a write of a Service takes longer the more
# Services exist (createIPAddress in pkg/registry/core/service/ipallocator): with 13,000 Services, this takes most of the processor time.
set -eu
version=$(sed -n 's/^const kubernetesVersion = "\(.*\)"$/\1/p' "$(dirname "$0")/../localcluster/build.go")
folder=${XDG_CACHE_HOME:-$HOME/.cache}/heighliner/benchscale/$version
if [ ! -x "$folder/kube-apiserver" ]; then
	cd "$(dirname "$0")/../localcluster/kubernetes"
	echo "building Kubernetes $version without these metrics (this takes minutes)" >&2
	work=$(mktemp -d)
	trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
	go mod download k8s.io/kubernetes
	cp -r "$(go list -m -f '{{.Dir}}' k8s.io/kubernetes)" "$work/kubernetes"
	chmod -R u+w "$work"
	allocator=$work/kubernetes/pkg/registry/core/service/ipallocator/ipallocator.go
	sed -i '/a\.metrics\.setAllocated(a\.metricLabel, a\.Used())/d; /a\.metrics\.setAvailable(a\.metricLabel, a\.Free())/d' "$allocator"
	if [ "$(grep -c 'a\.metrics\.set\(Allocated\|Available\)' "$allocator")" -ne 0 ] || cmp -s "$allocator" "$(go list -m -f '{{.Dir}}' k8s.io/kubernetes)/${allocator#"$work/kubernetes/"}"; then
		echo "$0: the metrics are updated in a different way in Kubernetes $version; adapt this script" >&2
		exit 1
	fi
	cp go.mod "$work/bench.mod"
	cp go.sum "$work/bench.sum"
	go mod edit -replace "k8s.io/kubernetes=$work/kubernetes" "$work/bench.mod"
	go build -modfile "$work/bench.mod" -trimpath -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version" -o "$work/kube" .
	mkdir -p "$folder"
	mv "$work/kube" "$folder/kube"
	for program in etcd kube-controller-manager kube-apiserver; do
		ln -sf kube "$folder/$program"
	done
fi
echo "$folder"
