// Command demo plays the main job of Heighliner on the local cluster, with real
// requests through the gateway, and ends with a verdict: exit code 0 when every
// check held and no request failed, 1 when not.
//
// It expects Heighliner to be installed, and the sample application to be built;
// "make demo" sees to both.
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
	flag.StringVar(&o.samples, "samples", "config/samples", "folder of the samples to apply")
	flag.StringVar(&o.app, "app", "bin/sampleapp", "static binary of the sample application")
	flag.StringVar(&o.kubectl, "kubectl", "kubectl", "kubectl to apply and show with")
	flag.Float64Var(&o.rate, "rate", 50, "requests per second")
	flag.DurationVar(&o.patience, "patience", 3*time.Minute, "how long a single step may take")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "Plays the main job of Heighliner on the local cluster, and ends with a verdict.\n\nUsage: demo [flags]\n\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

var errVerdict = errors.New("the verdict is: failed")

func run(ctx context.Context, o options) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	cluster, err := harness.OpenCluster(scheme, harness.AddressesFrom(os.Getenv))
	if err != nil {
		return err
	}
	drawing, stopDrawing := context.WithCancel(ctx)
	s := &story{options: o, cluster: cluster, out: harness.NewPicture(os.Stdout), began: time.Now()}
	drawn := make(chan struct{})
	go func() { defer close(drawn); s.out.Run(drawing) }()
	err = s.play(ctx)
	reports := s.stopLoads()
	stopDrawing()
	<-drawn
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	return s.conclude(reports, err)
}
