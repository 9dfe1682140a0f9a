// Command benchscale measures the load that the manager adds to a cluster. It starts a control plane with
// simulated nodes and pods, creates many services, upgrades, aborts, and pins all of them, and measures the
// requests, the processor time, and the memory of each phase. "make bench-scale" builds and runs it;
// docs/explanation/scale.md explains the results.
//
// It needs no root permissions, listens on loopback only, and uses process IDs to stop the processes that it
// started.
//
//	main.go           flags, and the runs of all products
//	plane.go          etcd, kube-apiserver, kube-controller-manager and kwok
//	controlplane.sh   builds a kube-apiserver for thousands of services, for the flag -assets
//	process.go        the processes, their processor time and memory
//	gateway.go        a stand-in for a gateway, which accepts each route immediately
//	images.go         a registry with the same image in every repository
//	audit.go          counts requests in the audit log
//	metrics.go        times of work queues
//	tracker.go        waits until all objects reach a goal
//	story.go          the phases, and their measurements
//	heighliner.go     the manager of this project
//	argorollouts.go   Argo Rollouts, for comparison
//	flagger.go        Flagger, for comparison
//	report.go         tables and JSON
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/resource"
	ctrl "sigs.k8s.io/controller-runtime"
)

// options are the values of the flags.
type options struct {
	services, namespaces int

	upgrades int
	writers  int
	batch    int
	decide   bool
	until    string
	source   string
	rest     time.Duration
	settle   time.Duration
	patience time.Duration

	assets, kwok, manager, arguments string
	memoryLimit                      string
	output, profiles, comment        string
	keep                             bool

	peer, peerBinary, peerCRDs, peerRouting, peerArguments string
	only                                                   bool
}

func (o *options) register(f *flag.FlagSet) {
	f.IntVar(&o.services, "n", 200, "number of services")
	f.IntVar(&o.namespaces, "namespaces", 1, "number of namespaces, across which the services are distributed evenly")
	f.IntVar(&o.upgrades, "upgrades", 1, "number of upgrades without pauses; starting with the third, each upgrade removes an old release")
	f.IntVar(&o.writers, "writers", 8, "number of objects that are written concurrently in each phase")
	f.IntVar(&o.batch, "batch", 0, "number of services in a batch; the next batch is changed when all services of the previous batch have reached the goal of the phase; 0 means a single batch")
	f.BoolVar(&o.decide, "decide", false, "during upgrades of batches, pin one service of the previous batch to its previous version, and measure how soon the manager acts; requires -batch")
	f.StringVar(&o.until, "until", "", "last phase to run, such as \"upgrade\"; the phase rest follows it; defaults to all phases")
	f.StringVar(&o.source, "source", "pinned", "source of versions: pinned (a list in each ImagePolicy) or registry (tags, with a scan request)")
	f.DurationVar(&o.rest, "rest", time.Minute, "duration of the phase rest, in which nothing changes")
	f.DurationVar(&o.settle, "settle", 20*time.Second, "a phase ends when the product and kube-controller-manager have written nothing for this long")
	f.DurationVar(&o.patience, "patience", 20*time.Minute, "maximum time to wait for the services of a batch, or of a phase without batches, after the last change")
	f.StringVar(&o.assets, "assets", os.Getenv("KUBEBUILDER_ASSETS"), "folder with etcd, kube-apiserver and kube-controller-manager, as printed by \"bin/localcluster assets\"; defaults to KUBEBUILDER_ASSETS")
	f.StringVar(&o.kwok, "kwok", "", "path of the kwok binary, as printed by \"bin/localcluster programs kwok\"")
	f.StringVar(&o.manager, "manager", "bin/heighliner", "binary of the manager")
	f.StringVar(&o.arguments, "manager-arguments", "", "additional arguments of the manager, separated by spaces")
	f.StringVar(&o.memoryLimit, "memory-limit", "", "memory limit of the manager's container, such as 700Mi; the manager derives its soft limit from it, as in a container; it is not enforced")
	f.StringVar(&o.output, "o", "", "file to write the results to, as JSON")
	f.StringVar(&o.profiles, "profiles", "", "folder for profiles of the manager: several CPU profiles for each phase, and one heap profile")
	f.StringVar(&o.comment, "comment", "", "text to add to the results, such as the commit")
	f.BoolVar(&o.keep, "keep", false, "keep the folder with the logs; it is always kept after a failure")
	f.StringVar(&o.peer, "peer", "", "product to compare with: argo-rollouts or flagger")
	f.StringVar(&o.peerBinary, "peer-bin", "", "binary of the product that -peer selects")
	f.StringVar(&o.peerCRDs, "peer-crds", "", "file or folder with the CustomResourceDefinitions of the product that -peer selects")
	f.StringVar(&o.peerRouting, "peer-routing", "nginx", "traffic routing of the product that -peer selects: \"nginx\" or, for Argo Rollouts only, \"none\"")
	f.StringVar(&o.peerArguments, "peer-arguments", "", "additional arguments of the product that -peer selects, separated by spaces")
	f.BoolVar(&o.only, "only-peer", false, "measure only the product that -peer selects")
}

// validate returns an error for invalid flags, before anything is started.
func (o *options) validate() error {
	switch {
	case o.services < 1:
		return fmt.Errorf("check -n: %d services: set it to at least 1", o.services)
	case o.namespaces < 1 || o.namespaces > o.services:
		return fmt.Errorf("check -namespaces: %d namespaces: set it to at least 1 and at most the number of services (%d)", o.namespaces, o.services)
	case o.upgrades < 1 || o.writers < 1:
		return fmt.Errorf("check -upgrades and -writers: %d and %d: set both to at least 1", o.upgrades, o.writers)
	case o.batch < 0:
		return fmt.Errorf("check -batch: %d: set it to at least 0", o.batch)
	case o.decide && o.batch == 0:
		return errors.New("check -decide: -batch is not set: decisions are made while a later batch is upgraded")
	case o.source != "pinned" && o.source != "registry":
		return fmt.Errorf("check -source: invalid value %q: use pinned or registry", o.source)
	case o.assets == "":
		return errors.New("-assets is not set: use the folder that \"bin/localcluster assets\" prints")
	case o.kwok == "":
		return errors.New("-kwok is not set: use the path that \"bin/localcluster programs kwok\" prints")
	case o.peer == "" && (o.peerBinary != "" || o.only):
		return errors.New("-peer is not set: -peer-bin and -only-peer require -peer argo-rollouts or -peer flagger")
	case o.peer != "" && o.peerBinary == "":
		return errors.New("-peer-bin is not set: use a binary of the product, which you build or download")
	case o.peer != "" && o.peerCRDs == "":
		return errors.New("-peer-crds is not set: use the file or folder with the product's CustomResourceDefinitions")
	case o.peerRouting != "nginx" && (o.peerRouting != "none" || o.peer == "flagger"):
		return fmt.Errorf("check -peer-routing: invalid value %q: use \"nginx\" or, with -peer argo-rollouts, \"none\"", o.peerRouting)
	}
	if _, err := o.softLimit(); err != nil {
		return err
	}
	if err := validateCheckout(); err != nil {
		return err
	}
	files := []string{o.kwok, filepath.Join(o.assets, "etcd"), filepath.Join(o.assets, "kube-apiserver"), filepath.Join(o.assets, "kube-controller-manager")}
	if !o.only {
		files = append(files, o.manager)
	}
	if o.peer != "" {
		files = append(files, o.peerBinary, o.peerCRDs)
	}
	for _, file := range files {
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("find a binary or a definition: %w", err)
		}
	}
	return nil
}

// unmanagedMemory is the memory in bytes that the manager reserves in its container, as in cmd/heighliner/memory.go.
const unmanagedMemory = 96 << 20

// softLimit returns the manager's GOMEMLIMIT in bytes, or 0 if it has none. The manager does not run
// in a container, from which it would derive this limit itself.
func (o *options) softLimit() (int64, error) {
	if o.memoryLimit == "" {
		return 0, nil
	}
	limit, err := resource.ParseQuantity(o.memoryLimit)
	if err != nil || limit.Value() <= 0 {
		return 0, fmt.Errorf("check -memory-limit: invalid value %q: use a size such as 700Mi", o.memoryLimit)
	}
	return limit.Value() - max(limit.Value()/10, min(limit.Value()/4, unmanagedMemory)), nil
}

func main() {
	var o options
	o.register(flag.CommandLine)
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "Measures the requests, CPU time and memory of the manager for many services.\n\nUsage: benchscale [flags]\n\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "benchscale: unexpected argument %q: quote values that contain spaces\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctrl.SetLogger(logr.Discard())
	if err := run(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, "benchscale:", err)
		os.Exit(1)
	}
}

// run runs all phases with each product, on its own control plane.
func run(ctx context.Context, o *options) error {
	if err := o.validate(); err != nil {
		return err
	}
	products := []product{&heighliner{options: o}}
	switch o.peer {
	case "":
	case "argo-rollouts":
		products = append(products, &argoRollouts{options: o})
	case "flagger":
		products = append(products, &flagger{options: o})
	default:
		return fmt.Errorf("check -peer: invalid value %q: use argo-rollouts or flagger", o.peer)
	}
	if o.only {
		products = products[1:]
	}
	for _, p := range products {
		if _, err := upTo(p.phases(), o.until); err != nil {
			return fmt.Errorf("%s: %w", p.name(), err)
		}
	}
	began := time.Now()
	report := &report{Services: o.services, Namespaces: o.namespaces, Began: began.UTC(), Comment: o.comment, Source: o.source}
	for _, p := range products {
		result, err := play(ctx, o, p, began)
		if result != nil {
			report.Products = append(report.Products, *result)
		}
		if err != nil {
			if ctx.Err() != nil {
				err = errors.New("interrupted; all processes were stopped")
			}
			return errors.Join(report.write(os.Stdout, o.output), err)
		}
	}
	return report.write(os.Stdout, o.output)
}

// play runs all phases with one product. After a failure, it returns the results of the previous phases
// together with the error.
func play(ctx context.Context, o *options, p product, began time.Time) (_ *productResult, err error) {
	dir, err := os.MkdirTemp("", "benchscale-")
	if err != nil {
		return nil, fmt.Errorf("create a folder: %w", err)
	}
	defer func() {
		if err != nil && ctx.Err() == nil || o.keep {
			fmt.Fprintln(os.Stderr, "logs are in", dir)
			return
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	say := func(format string, arguments ...any) {
		fmt.Fprintf(os.Stderr, "[%6.1fs] %s: %s\n", time.Since(began).Seconds(), p.name(), fmt.Sprintf(format, arguments...))
	}
	say("starting the control plane")
	plane, err := startPlane(ctx, o, dir, p.definitions())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, plane.stop()) }()
	say("starting the product")
	process, err := p.start(ctx, plane)
	if err != nil {
		return nil, err
	}
	plane.started = append(plane.started, process)
	s := &story{options: o, product: p, plane: plane, process: process, say: say, audit: &auditLog{path: plane.auditPath}}
	return s.play(ctx)
}

// fields splits arguments at spaces.
func fields(arguments string) []string { return strings.Fields(arguments) }
