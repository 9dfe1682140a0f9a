// Command board serves the board with example services, for work on its design and for screenshots. With
// -pictures, it opens the board in Chromium, writes screenshots to a folder, and exits.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/cluster"
	"github.com/heighliner/heighliner/internal/view/viewtest"
	"github.com/heighliner/heighliner/internal/web"
)

// services are the services on the board, with the histories that they show.
var services = []struct{ name, story string }{
	{"shop", "approval"}, {"payments", "rolled back"}, {"checkout", "second step"}, {"search", "two groups"}, {"web", "previews"},
	{"orders", "pinned"}, {"invoices", "no capacity"}, {"mail", "active"}, {"catalog", "analysis"}, {"accounts", "promoted"},
	{"loyalty", "frozen"}, {"stock", "window"}, {"reviews", "crashes"}, {"gateway", "not programmed"}, {"ratings", "continued"}, {"pricing", "rejected"},
}

// pictures are the screenshots: for each name, a page and a window size.
var pictures = []struct {
	name, path    string
	width, height int
	dark          bool
}{
	{"board.png", "/", 1360, 800, false},
	{"board-freezes.png", "/freezes", 1360, 420, false},
	{"board-narrow-dark.png", "/", 500, 1000, true},
}

// allow permits readers of the board to perform all actions, but executes none of these actions.
type allow struct{}

func (allow) May(context.Context, string) []string {
	return web.ActsOf(func(string, string) bool { return true })
}

func (allow) Preview(_ context.Context, a web.Act) (web.Outcome, error) {
	return web.Outcome{Text: a.Service + " " + a.Target + ": " + a.Verb + " by ana", Effects: []string{"1.x: 1.1.0 gets 50%", "1.x: 1.1.0 is active"}, By: "ana", Command: "hlnr " + a.Verb + " " + a.Service + " " + a.Target}, nil
}

func (allow) MayFreeze(context.Context, string) (freeze, thaw bool) { return true, true }

func (allow) PreviewFreeze(_ context.Context, f web.Freeze) (web.Outcome, error) {
	return web.Outcome{Text: "namespace " + f.Namespace + ": frozen until " + f.Until + " by ana", By: "ana", Command: "hlnr freeze " + f.Namespace}, nil
}

func (allow) Freeze(context.Context, web.Freeze) (web.Outcome, error) {
	return web.Outcome{}, errors.New("example services do not change")
}

func (allow) Do(context.Context, web.Act) (web.Outcome, error) {
	return web.Outcome{}, errors.New("example services do not change")
}

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on")
	moving := flag.Bool("moving", false, "change a service every second to show how pages are updated")
	folder := flag.String("pictures", "", "folder to write pictures to; the command exits afterwards")
	browser := flag.String("browser", "chromium", "program that takes the pictures")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *listen, *folder, *browser, *moving); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "board:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, listen, folder, browser string, moving bool) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	const token = "made-up-services"
	now := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	store := cluster.NewStore(madeUp(now))
	var times clock.Clock = clocktesting.NewFakeClock(now)
	if moving {
		times = clock.RealClock{}
		go toggle(ctx, store)
	}
	server, err := web.New(web.Options{
		Store: store, Acts: allow{}, Token: token, Hosts: []string{l.Addr().String()}, Title: "production", Version: "dev", Clock: times,
	})
	if err != nil {
		return err
	}
	url := "http://" + l.Addr().String()
	fmt.Printf("%s/?token=%s\n", url, token)
	if folder == "" {
		return server.Serve(ctx, l)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, l) }()
	for _, p := range pictures {
		args := []string{
			"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--timeout=5000",
			fmt.Sprintf("--window-size=%d,%d", p.width, p.height), "--screenshot=" + filepath.Join(folder, p.name),
		}
		if p.dark {
			args = append(args, "--blink-settings=preferredColorScheme=0")
		}
		command := exec.CommandContext(ctx, browser, append(args, url+p.path+"?token="+token)...)
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", browser, err, out)
		}
	}
	return nil
}

// toggle pauses or resumes the last service every second.
func toggle(ctx context.Context, store *cluster.Store) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		data, _ := store.Data()
		o := data.Objects
		o.Microservices = slices.Clone(o.Microservices)
		last := &o.Microservices[len(o.Microservices)-1]
		last.Spec.Paused = !last.Spec.Paused
		store.Set(o)
	}
}

// tiers maps services to the value of the label by which a freeze selects services.
var tiers = map[string]string{"loyalty": "sales", "pricing": "sales", "orders": "sales"}

// freezes returns two freezes for the services: one is in effect and blocks a service, and the other is planned.
func freezes(now time.Time) []v1alpha1.Freeze {
	var out []v1alpha1.Freeze
	for name, by := range map[string]string{"fair": "ana", "end-of-year": "system:serviceaccount:flux-system:kustomize-controller"} {
		f := v1alpha1.Freeze{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: map[string]string{v1alpha1.AnnotationDecidedBy: by}}}
		f.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "sales"}}
		f.Spec.Reason, f.Spec.Until = "trade fair", &metav1.Time{Time: time.Date(2030, 2, 4, 8, 0, 0, 0, time.UTC)}
		if name != "fair" {
			f.Spec.Selector, f.Spec.Until, f.Spec.Reason = nil, nil, "end-of-year sales"
			f.Spec.Periods = []v1alpha1.FreezePeriod{{From: metav1.NewTime(now.AddDate(0, 10, 0)), To: metav1.NewTime(now.AddDate(0, 11, 4))}}
		}
		out = append(out, f)
	}
	return out
}

// inProgress contains the names of the histories that end at the board's current time, because they are waiting for
// something that happens within minutes.
var inProgress = map[string]bool{"second step": true, "analysis": true}

// timestamp matches the times in a history.
var timestamp = regexp.MustCompile(`"2030-01-31T[0-9:.]+Z"`)

// until shifts the timestamps of a history so that the history ends at the given time, which must be on the
// same day.
func until(s viewtest.Story, end time.Time) viewtest.Story {
	by := end.Sub(s.Now)
	move(&s.Input.Microservices, by)
	move(&s.Input.Releases, by)
	move(&s.Input.NetworkPolicies, by)
	s.Now = end
	return s
}

// move shifts all timestamps of objects.
func move[T any](objects *[]T, by time.Duration) {
	text, err := json.Marshal(*objects)
	if err != nil {
		panic(err)
	}
	text = timestamp.ReplaceAllFunc(text, func(old []byte) []byte {
		layout := `"2006-01-02T15:04:05Z"`
		if bytes.Contains(old, []byte(".")) {
			layout = `"2006-01-02T15:04:05.000000Z"`
		}
		t, err := time.Parse(layout, string(old))
		if err != nil {
			panic(err)
		}
		return []byte(t.Add(by).Format(layout))
	})
	var moved []T
	if err := json.Unmarshal(text, &moved); err != nil {
		panic(err)
	}
	*objects = moved
}

// madeUp returns example services with pods and events.
func madeUp(now time.Time) cluster.Objects {
	var o cluster.Objects
	o.Events, o.Pods = []eventsv1.Event{}, []corev1.Pod{}
	o.Freezes = freezes(now)
	for i, x := range services {
		s, ok := viewtest.Play(x.story, x.name)
		if !ok {
			panic("there is no history " + x.story)
		}
		if inProgress[x.story] {
			s = until(s, now)
		}
		o.Namespace = s.Input.Namespace
		for j := range s.Input.Microservices {
			s.Input.Microservices[j].Labels = map[string]string{"tier": tiers[x.name]}
		}
		o.Microservices = append(o.Microservices, s.Input.Microservices...)
		o.Releases = append(o.Releases, s.Input.Releases...)
		o.NetworkPolicies = append(o.NetworkPolicies, s.Input.NetworkPolicies...)
		o.ImagePolicies = append(o.ImagePolicies, s.Input.ImagePolicies...)
		o.Repositories = append(o.Repositories, s.Input.Repositories...)
		for _, r := range s.Input.Releases {
			for k := range r.Status.Available {
				o.Pods = append(o.Pods, corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: fmt.Sprintf("%s-%d", r.Name, k), Labels: map[string]string{v1alpha1.LabelRelease: r.Name}},
					Status:     corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: now.Add(-time.Hour)}}}},
				})
			}
		}
		o.Events = append(o.Events, eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: x.name}, EventTime: metav1.NewMicroTime(now.Add(-time.Duration(i) * time.Minute)), Type: "Normal", Reason: "Started",
			Note: "group 1.x: 1.1.0 started; 1.0.0 keeps serving", Regarding: corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Microservice", Namespace: "shop", Name: x.name},
		})
	}
	return o
}
