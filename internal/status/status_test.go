package status_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/status"
)

func TestLine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ in, want string }{
		"empty":                {"", ""},
		"plain":                {"as it is", "as it is"},
		"several lines":        {" one\n\ttwo\r\n three ", "one two three"},
		"control":              {"a\x00b\x1b[31mc\x7f", "ab[31mc"},
		"broken UTF-8":         {"a\xffb", "ab"},
		"exact":                {strings.Repeat("x", 512), strings.Repeat("x", 512)},
		"long":                 {strings.Repeat("x", 513), strings.Repeat("x", 509) + "…"},
		"limit within a rune":  {strings.Repeat("x", 508) + "ééé", strings.Repeat("x", 508) + "…"},
		"only multibyte runes": {strings.Repeat("é", 300), strings.Repeat("é", 254) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := status.Line(test.in)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(got) > status.MaxMessage || !utf8.ValidString(got) {
				t.Errorf("%d bytes, valid %t", len(got), utf8.ValidString(got))
			}
		})
	}
}

var noTimes = cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")

func TestKstatus(t *testing.T) {
	t.Parallel()
	var conds []metav1.Condition
	status.Set(&conds, 1, "Available", metav1.ConditionFalse, "Starting", "0/2")
	status.Reconciling(&conds, 1, "Starting", "two\nlines")
	want := []metav1.Condition{
		{Type: "Available", Status: "False", ObservedGeneration: 1, Reason: "Starting", Message: "0/2"},
		{Type: "Ready", Status: "False", ObservedGeneration: 1, Reason: "Starting", Message: "two lines"},
		{Type: "Reconciling", Status: "True", ObservedGeneration: 1, Reason: "Starting", Message: "two lines"},
	}
	if diff := cmp.Diff(want, conds, noTimes); diff != "" {
		t.Errorf("reconciling (-want +got):\n%s", diff)
	}
	status.Stalled(&conds, 2, "NameConflict", "rename it")
	want = []metav1.Condition{
		want[0],
		{Type: "Ready", Status: "False", ObservedGeneration: 2, Reason: "NameConflict", Message: "rename it"},
		{Type: "Stalled", Status: "True", ObservedGeneration: 2, Reason: "NameConflict", Message: "rename it"},
	}
	if diff := cmp.Diff(want, conds, noTimes); diff != "" {
		t.Errorf("stalled (-want +got):\n%s", diff)
	}
	status.Ready(&conds, 2, status.ReasonSucceeded, "")
	want = []metav1.Condition{want[0], {Type: "Ready", Status: "True", ObservedGeneration: 2, Reason: "Succeeded"}}
	if diff := cmp.Diff(want, conds, noTimes); diff != "" {
		t.Errorf("ready (-want +got):\n%s", diff)
	}
	since := conds[1].LastTransitionTime
	if status.Set(&conds, 2, "Ready", metav1.ConditionTrue, status.ReasonSucceeded, "") {
		t.Error("setting the same condition again reports a change")
	}
	status.Set(&conds, 3, "Ready", metav1.ConditionTrue, "Other", "")
	if !conds[1].LastTransitionTime.Equal(&since) {
		t.Error("lastTransitionTime changed without a transition")
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	things := schema.GroupResource{Resource: "things"}
	plain := errors.New("plain")
	for name, test := range map[string]struct {
		err    error
		class  status.Class
		reason string
	}{
		"plain":       {plain, status.Transient, status.ReasonFailed},
		"own":         {fmt.Errorf("do it: %w", status.NewWaiting("NotYet", time.Second, plain)), status.Waiting, "NotYet"},
		"terminal":    {status.NewTerminal("BadRange", plain), status.Terminal, "BadRange"},
		"foreign":     {fmt.Errorf("do it: %w", &apply.ForeignError{Kind: "Service", Name: "web"}), status.Terminal, status.ReasonNameConflict},
		"terminating": {&apply.TerminatingError{Kind: "Service", Name: "web"}, status.Waiting, status.ReasonTerminating},
		"invalid":     {apierrors.NewInvalid(schema.GroupKind{Kind: "Thing"}, "x", nil), status.Terminal, status.ReasonInvalid},
		"forbidden":   {apierrors.NewForbidden(things, "x", plain), status.Terminal, status.ReasonForbidden},
		"namespace is terminating": {&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonForbidden, Details: &metav1.StatusDetails{
			Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}}}}, status.Waiting, status.ReasonTerminating},
		"namespace gone": {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "x"), status.Waiting, status.ReasonTerminating},
		"not found":      {apierrors.NewNotFound(things, "x"), status.Transient, status.ReasonFailed},
		"conflict":       {apierrors.NewConflict(things, "x", plain), status.Transient, status.ReasonConflict},
		"exists":         {apierrors.NewAlreadyExists(things, "x"), status.Transient, status.ReasonConflict},
		"timeout":        {apierrors.NewTimeoutError("slow", 1), status.Transient, status.ReasonFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := status.Classify(test.err)
			if got.Class != test.class || got.Reason != test.reason || !errors.Is(got, test.err) || got.Error() != test.err.Error() {
				t.Errorf("got %s %s %q, want %s %s %q", got.Class, got.Reason, got, test.class, test.reason, test.err)
			}
		})
	}
	if status.Classify(nil) != nil {
		t.Error("nil is an error")
	}
}

func TestAgain(t *testing.T) {
	t.Parallel()
	things := schema.GroupResource{Resource: "things"}
	for name, test := range map[string]struct {
		err   error
		quiet bool
	}{
		"conflict":  {fmt.Errorf("do it: %w", apierrors.NewConflict(things, "x", errors.New("newer"))), true},
		"exists":    {fmt.Errorf("create it: %w", apierrors.NewAlreadyExists(things, "x")), true},
		"not found": {apierrors.NewNotFound(things, "x"), false},
		"plain":     {errors.New("no"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, err := status.Again(t.Context(), test.err)
			if (err == nil) != test.quiet || (result.RequeueAfter > 0) != test.quiet {
				t.Errorf("got %v and %v", result, err)
			}
		})
	}
}

type recorded []string

func (r *recorded) Eventf(_, _ runtime.Object, kind, reason, action, note string, args ...any) {
	*r = append(*r, strings.Join([]string{kind, reason, action, fmt.Sprintf(note, args...)}, " "))
}

func TestTransitions(t *testing.T) {
	t.Parallel()
	cond := func(value metav1.ConditionStatus, reason, message string) []metav1.Condition {
		return []metav1.Condition{{Type: "Ready", Status: value, Reason: reason, Message: message}}
	}
	for name, test := range map[string]struct {
		before, now []metav1.Condition
		want        recorded
	}{
		"absent":          {nil, nil, nil},
		"goes":            {cond("True", "A", ""), nil, nil},
		"first good":      {nil, cond("True", "A", "100% it"), recorded{"Normal A Run 100% it"}},
		"first bad":       {nil, cond("False", "A", "it"), recorded{"Warning A Run it"}},
		"message only":    {cond("True", "A", "x"), cond("True", "A", "y"), nil},
		"another reason":  {cond("False", "A", "x"), cond("False", "B", "y"), recorded{"Warning B Run y"}},
		"another status":  {cond("False", "A", "x"), cond("True", "A", "x"), recorded{"Normal A Run x"}},
		"two-line notes":  {nil, cond("True", "A", "x\ny"), recorded{"Normal A Run x y"}},
		"nothing changed": {cond("True", "A", "x"), cond("True", "A", "x"), nil},
		"two conditions, one reason": {nil, append(cond("False", "A", "x"), metav1.Condition{Type: "Reachable", Status: "False", Reason: "A", Message: "y"}),
			recorded{"Warning A Run x"}},
		"two reasons": {nil, append(cond("False", "A", "x"), metav1.Condition{Type: "Reachable", Status: "False", Reason: "B", Message: "y"}),
			recorded{"Warning A Run x", "Warning B Run y"}},
		"no worry": {nil, []metav1.Condition{{Type: "Reachable", Status: "True", Reason: "A"}}, nil},
		"worry that has ended": {[]metav1.Condition{{Type: "Reachable", Status: "False", Reason: "A"}}, []metav1.Condition{{Type: "Reachable", Status: "True", Reason: "B", Message: "x"}},
			recorded{"Normal B Run x"}},
		"first passing":      {nil, cond("False", "Soon", "x"), nil},
		"passing, then good": {cond("False", "Soon", "x"), cond("True", "A", "y"), nil},
		"passing, then bad":  {cond("False", "Soon", "x"), cond("False", "A", "y"), recorded{"Warning A Run y"}},
		"bad, then passing":  {cond("False", "A", "x"), cond("False", "Soon", "y"), nil},
		"good, then passing": {cond("True", "A", "x"), cond("False", "Soon", "y"), recorded{"Warning Soon Run y"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got recorded
			status.Recorder{Events: &got}.Transitions(&corev1.Pod{}, test.before, test.now, "Run",
				status.TransitionRule{Kind: "Ready", Good: metav1.ConditionTrue, Passing: []string{"Soon"}},
				status.TransitionRule{Kind: "Reachable", Good: metav1.ConditionTrue, Worry: true})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	status.Recorder{}.Normal(&corev1.Pod{}, "A", "B", "must not panic")
}

func TestJournal(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pod := func(uid, version string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), ResourceVersion: version}}
	}
	j := &status.Journal{Interval: time.Second}
	if j.Wait(pod("a", "1"), start) != 0 || j.Behind(pod("a", "1")) {
		t.Error("an empty journal remembers something")
	}
	j.Wrote(pod("a", "1"), pod("a", "2"), start)
	j.Wrote(pod("same", "1"), pod("same", "1"), start)
	for name, test := range map[string]struct {
		pod    *corev1.Pod
		at     time.Duration
		wait   time.Duration
		behind bool
	}{
		"before the write":       {pod("a", "1"), 0, time.Second, true},
		"after the write":        {pod("a", "2"), 500 * time.Millisecond, 500 * time.Millisecond, false},
		"after the interval":     {pod("a", "2"), time.Second, 0, false},
		"another object":         {pod("b", "1"), 0, 0, false},
		"a write without effect": {pod("same", "1"), 0, time.Second, false},
	} {
		if got := j.Wait(test.pod, start.Add(test.at)); got != test.wait {
			t.Errorf("%s: waits %s, want %s", name, got, test.wait)
		}
		if got := j.Behind(test.pod); got != test.behind {
			t.Errorf("%s: behind %t, want %t", name, got, test.behind)
		}
	}
	j.Wrote(pod("b", "1"), pod("b", "2"), start.Add(time.Minute))
	if j.Behind(pod("a", "1")) || !j.Behind(pod("b", "1")) {
		t.Error("the journal forgets the wrong records")
	}
}

func TestShort(t *testing.T) {
	sha := strings.Repeat("0123456789abcdef", 4)
	for version, want := range map[string]string{
		sha[:40]: "0123456", sha: "0123456", sha[:39]: sha[:39], strings.ToUpper(sha[:40]): strings.ToUpper(sha[:40]), "1.2.3": "1.2.3", "": "",
	} {
		if got := status.Short(version); got != want {
			t.Errorf("Short(%q) = %q, want %q", version, got, want)
		}
	}
}
