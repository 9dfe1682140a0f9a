// Command apiserver contains the kube-apiserver, kube-controller-manager, and kubectl of one version of
// Kubernetes, for tests with several versions. It is built once for each module file: go.mod is for the
// newest version, and "go build -modfile=v1.33.mod" selects another version. The name of the program selects
// the component.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata" // CronJob time zones

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // JSON log format
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllermanager.NewControllerManagerCommand()))
	case "kubectl":
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			os.Exit(1)
		}
	default:
		fmt.Fprintf(os.Stderr, "apiserver: %q is not a component: run this program as kube-apiserver, kube-controller-manager or kubectl\n", name)
		os.Exit(2)
	}
}
