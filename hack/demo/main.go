// Command demo shows Heighliner on the local cluster, with real requests through the gateway. It exits with 0
// if every check passed and only the expected requests failed, and otherwise with 1. There are six demos: the
// main demo, canary analysis, previews of pull requests, domains and TCP, hook Jobs, and workers of a
// queue.
//
// It requires that Heighliner is installed, and that the sample application and hlnr are built. "make demo",
// "make demo-analysis", and the other demo targets take care of both.
//
//	main.go      flags, and the selection of the demo
//	story.go     common parts of all demos: images, load and checks
//	record.go    the recording of a demo, from which pictures are drawn
//	chapters.go  the main demo
//	analysis.go  good, bad, slow and idle canaries
//	previews.go  pull requests
//	traffic.go   domains and TCP
//	jobs.go      hook Jobs
//	workers.go   workers of a queue
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

func main() {
	var o options
	var name string
	flag.StringVar(&name, "story", "main", "demo to run: main, analysis, previews, traffic, jobs or workers")
	flag.StringVar(&o.samples, "samples", "", "folder of the samples to apply (default: the folder of the demo)")
	flag.StringVar(&o.app, "app", "bin/sampleapp", "static binary of the sample application")
	flag.StringVar(&o.kubectl, "kubectl", "kubectl", "kubectl binary")
	flag.StringVar(&o.hlnr, "hlnr", "bin/hlnr", "hlnr binary")
	flag.Float64Var(&o.rate, "rate", 50, "requests per second")
	flag.DurationVar(&o.patience, "patience", 3*time.Minute, "maximum duration of a step")
	record := flag.String("record", "", "file for the weights and responses of each second; hack/picture draws a picture from it")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "Runs a demo of Heighliner on the local cluster, and exits non-zero on failure.\n\nUsage: demo [flags]\n\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, name, *record, o); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

var errFailed = errors.New("the demo failed")

func run(ctx context.Context, name, record string, o options) error {
	script, ok := scripts[name]
	if !ok {
		return fmt.Errorf("check -story: invalid value %q: use main, analysis, previews, traffic, jobs or workers", name)
	}
	if o.samples == "" {
		o.samples = script.samples
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	cluster, err := harness.OpenCluster(scheme, harness.AddressesFrom(os.Getenv))
	if err != nil {
		return err
	}
	drawing, stopDrawing := context.WithCancel(ctx)
	s := &story{options: o, script: script, cluster: cluster, out: harness.NewPicture(os.Stdout), began: time.Now(), recorder: recorder{file: record}}
	drawn := make(chan struct{})
	go func() { defer close(drawn); s.out.Run(drawing) }()
	err = s.play(ctx)
	err = errors.Join(err, s.recorder.write())
	reports := s.stopLoads()
	stopDrawing()
	<-drawn
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	return s.conclude(reports, err)
}
