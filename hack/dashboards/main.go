// Command dashboards generates the Prometheus alerts and the Grafana dashboards.
//
//	dashboards ROOT
//
// It writes config/components/alerts and config/components/dashboards below the folder ROOT. It also writes a copy of the
// dashboards for the chart, because a chart cannot read files outside its folder.
//
//	main.go        the files
//	alerts.go      the alerts
//	dashboards.go  the dashboards
//	grafana.go     the parts of dashboards in Grafana's JSON
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// files returns all generated files, by path relative to ROOT.
func files() map[string][]byte {
	out := map[string][]byte{
		"config/components/alerts/rules.yaml":          ruleFile(),
		"config/components/alerts/prometheusrule.yaml": prometheusRule(),
	}
	for name, d := range dashboards() {
		for _, folder := range []string{"config/components/dashboards/", "charts/heighliner/files/dashboards/"} {
			out[folder+name+".json"] = d.model()
		}
	}
	return out
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dashboards ROOT")
		os.Exit(2)
	}
	out := files()
	for _, path := range slices.Sorted(maps.Keys(out)) {
		if err := os.WriteFile(filepath.Join(os.Args[1], filepath.FromSlash(path)), out[path], 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "dashboards:", err)
			os.Exit(1)
		}
	}
}
