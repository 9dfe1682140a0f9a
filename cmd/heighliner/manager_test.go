package main

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

var update = flag.Bool("update", false, "write the golden files")

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	cmd := command()
	cmd.SetArgs([]string{"--help"})
	cmd.SetOut(&out)
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/help.txt"
	if *update {
		if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("--help (-want +got):\n%s", diff)
	}
}

func TestRefusedFlags(t *testing.T) {
	for args, want := range map[string]string{
		"--max-starting-rollouts=-1":                   "--max-starting-rollouts: invalid value -1: must not be negative",
		"--workers=0":                                  "--workers: invalid value 0: must be at least 1",
		"--min-drain-delay=0s":                         "--min-drain-delay: invalid value 0s: must be greater than 0, such as 5s",
		"--min-drain-delay=-1s":                        "--min-drain-delay: invalid value -1s: must be greater than 0, such as 5s",
		"--min-drain-delay=1":                          `invalid argument "1" for "--min-drain-delay" flag: time: missing unit in duration "1"`,
		"--outbound-deny=a/b":                          `read --outbound-deny: "a/b" is not an address, CIDR or host name; write 10.0.0.0/8, 127.0.0.1:5000, or example.com, which includes its subdomains`,
		"--default-platform=AMD64":                     `--default-platform: invalid value "AMD64": write the operating system and the architecture in lower case, such as linux/amd64 or linux/arm64/v8`,
		"--registry-workload-identity=gcp":             `--registry-workload-identity: "gcp" is not a supported cloud: use one of aws, azure, google`,
		"--registry-workload-identity-namespaces=shop": "--registry-workload-identity-namespaces requires --registry-workload-identity, such as aws",
		"--registry-requests-per-second=0":             "--registry-requests-per-second: invalid value 0: must be from 0.1 to 10000, such as 50",
		"--registry-requests-per-second=1e9":           "--registry-requests-per-second: invalid value 1e+09: must be from 0.1 to 10000, such as 50",
		"--registry-requests-per-second=NaN":           "--registry-requests-per-second: invalid value NaN: must be from 0.1 to 10000, such as 50",
		"--shards=-1":                                  "--shards: invalid value -1: must be from 0 to 32, such as the number of replicas",
		"--shards=33":                                  "--shards: invalid value 33: must be from 0 to 32, such as the number of replicas",
		"--shards=3":                                   "--shards requires --leader-election-namespace, the namespace of the Leases",
		"--shards=3 --leader-elect":                    "--shards and --leader-elect: set only one of them, because each shard has its own Lease",
		"--service-metrics-limit=-1":                   "--service-metrics-limit: invalid value -1: must be from 0 to 10000, such as 500",
		"--service-metrics-limit=10001":                "--service-metrics-limit: invalid value 10001: must be from 0 to 10000, such as 500",
		"--unknown":                                    "unknown flag: --unknown",
		"argument":                                     `unknown command "argument" for "heighliner"`,
	} {
		cmd := command()
		cmd.SetArgs(strings.Fields(args))
		err := cmd.Execute()
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
}

func TestManagerOptions(t *testing.T) {
	for name, test := range map[string]struct {
		options                    options
		address                    string
		secure, filtered, elects   bool
		leaderNamespace, namespace string
	}{
		"default":       {options{metricsAddress: ":8443"}, ":8443", true, true, false, "", ""},
		"insecure":      {options{metricsAddress: ":8080", metricsInsecure: true}, ":8080", false, false, false, "", ""},
		"elected":       {options{leaderElect: true, leaderNamespace: "there"}, "", true, true, true, "there", ""},
		"one namespace": {options{namespaces: []string{"shop"}}, "", true, true, false, "", "shop"},
	} {
		t.Run(name, func(t *testing.T) {
			got := managerOptions(test.options)
			if got.Metrics.BindAddress != test.address || got.Metrics.SecureServing != test.secure || (got.Metrics.FilterProvider != nil) != test.filtered {
				t.Errorf("metrics at %q, secure %t, filtered %t", got.Metrics.BindAddress, got.Metrics.SecureServing, got.Metrics.FilterProvider != nil)
			}
			if got.LeaderElection != test.elects || got.LeaderElectionID != "manager.hlnr.io" || got.LeaderElectionNamespace != test.leaderNamespace {
				t.Errorf("election %t of %q in %q", got.LeaderElection, got.LeaderElectionID, got.LeaderElectionNamespace)
			}
			if _, ok := got.Cache.DefaultNamespaces[test.namespace]; ok != (test.namespace != "") {
				t.Errorf("the manager watches %v", got.Cache.DefaultNamespaces)
			}
			if !got.Cache.ReaderFailOnMissingInformer {
				t.Error("a read can start an unintended informer")
			}
			secrets := false
			for _, obj := range got.Client.Cache.DisableFor {
				if _, ok := obj.(*corev1.Secret); ok {
					secrets = true
				}
			}
			if !secrets {
				t.Error("Secrets are read through the cache")
			}
			for obj := range got.Cache.ByObject {
				if _, ok := obj.(*corev1.Secret); ok {
					t.Error("there is an informer for Secrets")
				}
			}
			if *got.GracefulShutdownTimeout <= 0 || *got.GracefulShutdownTimeout > time.Minute {
				t.Errorf("graceful shutdown takes %s", *got.GracefulShutdownTimeout)
			}
		})
	}
}

func TestScheme(t *testing.T) {
	scheme := newScheme()
	for kind := range managerOptions(options{}).Cache.ByObject {
		if _, _, err := scheme.ObjectKinds(kind); err != nil {
			t.Errorf("%T: %v", kind, err)
		}
	}
}
