package show

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/text"
)

// together is how long changes are collected before they are shown: a step changes several objects.
const together = 50 * time.Millisecond

// watch calls changed after each change of the objects of a namespace, until the context ends.
// seen are the objects that were read before; a kind that could not be read is not watched. lost
// is called when a watch is interrupted; it is taken up again.
func watch(ctx context.Context, f *cli.Factory, namespace string, seen view.Input, changed func(view.Input), lost func(error)) error {
	log.SetLogger(logr.Discard()) // what the watches report goes to lost
	config, err := f.Config()
	if err != nil {
		return err
	}
	scheme, err := cli.Scheme()
	if err != nil {
		return err
	}
	ofReleases, err := labels.NewRequirement(v1alpha1.LabelRelease, selection.Exists, nil)
	if err != nil {
		return fmt.Errorf("select pods: %w", err)
	}
	objects, err := cache.New(config, cache.Options{
		Scheme: scheme, DefaultNamespaces: map[string]cache.Config{namespace: {}}, DefaultTransform: cache.TransformStripManagedFields(),
		ByObject:                 map[client.Object]cache.ByObject{&corev1.Pod{}: {Label: labels.NewSelector().Add(*ofReleases)}},
		DefaultWatchErrorHandler: func(_ context.Context, _ *toolscache.Reflector, err error) { lost(err) },
	})
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	dirty := make(chan struct{}, 1)
	note := func(any) {
		select {
		case dirty <- struct{}{}:
		default:
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 1)
	go func() { failed <- objects.Start(ctx) }()
	for _, kind := range watched(seen) {
		informer, err := objects.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, now any) { note(now) }, DeleteFunc: note}); err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	if !objects.WaitForCacheSync(ctx) {
		return ctx.Err()
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return err
		case <-dirty:
		}
		timer := time.NewTimer(together)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		in, err := cached(ctx, objects, namespace, seen)
		if err != nil {
			return err
		}
		changed(in)
	}
}

// watched are the kinds that could be read.
func watched(seen view.Input) []client.Object {
	kinds := []client.Object{&v1alpha1.Microservice{}}
	for _, k := range []struct {
		kind client.Object
		read bool
	}{
		{&v1alpha1.VersionedMicroservice{}, seen.Releases != nil}, {&v1alpha1.NetworkPolicy{}, seen.NetworkPolicies != nil},
		{&v1alpha1.ImagePolicy{}, seen.ImagePolicies != nil}, {&v1alpha1.GitHubRepository{}, seen.Repositories != nil}, {&corev1.Pod{}, seen.Pods != nil},
	} {
		if k.read {
			kinds = append(kinds, k.kind)
		}
	}
	return kinds
}

// cached reads the objects of the watches.
func cached(ctx context.Context, c client.Reader, namespace string, seen view.Input) (view.Input, error) {
	in := view.Input{Namespace: seen.Namespace, Program: seen.Program}
	read := func(list client.ObjectList, wanted bool) error {
		if !wanted {
			return nil
		}
		return c.List(ctx, list, client.InNamespace(namespace))
	}
	var (
		services     v1alpha1.MicroserviceList
		releases     v1alpha1.VersionedMicroserviceList
		policies     v1alpha1.NetworkPolicyList
		images       v1alpha1.ImagePolicyList
		repositories v1alpha1.GitHubRepositoryList
		pods         corev1.PodList
	)
	for _, l := range []struct {
		list   client.ObjectList
		wanted bool
	}{
		{&services, true}, {&releases, seen.Releases != nil}, {&policies, seen.NetworkPolicies != nil},
		{&images, seen.ImagePolicies != nil}, {&repositories, seen.Repositories != nil}, {&pods, seen.Pods != nil},
	} {
		if err := read(l.list, l.wanted); err != nil {
			return in, fmt.Errorf("read watched objects: %w", err)
		}
	}
	for i := range services.Items {
		services.Items[i].Status.Convert() // a list of copies
	}
	in.Microservices, in.Releases, in.NetworkPolicies = services.Items, releases.Items, policies.Items
	in.ImagePolicies, in.Repositories, in.Pods = images.Items, repositories.Items, pods.Items
	return in, nil
}

// watchLines prints a line for each release, and one for each change.
func watchLines(ctx context.Context, f *cli.Factory, namespace, name string, in view.Input, o text.Options) error {
	var last view.Service
	var problem error
	show := func(in view.Input) {
		s, _ := view.NewService(in, namespace, name, f.Now())
		o.Now = f.Now()
		if err := text.Changes(f.Out, view.Changes(last, s), o); err != nil && problem == nil {
			problem = err
		}
		last = s
	}
	show(in)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	err := watch(ctx, f, namespace, in, func(in view.Input) {
		if show(in); problem != nil {
			stop()
		}
	}, reportLost(f.ErrOut))
	if problem != nil {
		return fmt.Errorf("write output: %w", problem)
	}
	return err
}

// reportLost prints why a watch was interrupted, once for each cause.
func reportLost(out io.Writer) func(error) {
	last := ""
	return func(err error) {
		if text := err.Error(); text != last {
			last = text
			fmt.Fprintln(out, "hlnr: the watch was interrupted and is taken up again:", text)
		}
	}
}
